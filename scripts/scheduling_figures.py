"""Figures of one run of `baton bench`, and what runs under several policies say together.

A run is known by its rows (docs/bench.md), which were all scheduled by the same plan under every policy, so policies are
compared round by round: the ratio of a figure to the same round's under the first policy, its mean over the rounds in
logarithms, and the 95 % interval of that mean by Student's t.
"""

import math
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "analysis"))
from baton_analysis import intervals  # noqa: E402

LATENCIES = ("ttft", "tpot", "e2e")
FIGURES = tuple(f"{name}_{what}" for name in LATENCIES for what in ("mean", "p50", "p99"))


def percentile(values, part):
    """By linear interpolation, as `baton bench` does; None of nothing."""
    ordered = sorted(values)
    if not ordered:
        return None
    at = part * (len(ordered) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def latencies(row):
    """{ttft, tpot, e2e} of a request in ms, counted from its scheduled arrival; no tpot of a single token."""
    first, last = row["chunks"][0][0], row["chunks"][-1][0]
    out = {"ttft": 1e3 * (first - row["scheduled"]), "e2e": 1e3 * (last - row["scheduled"])}
    if row["output_tokens"] > 1:
        out["tpot"] = 1e3 * (last - first) / (row["output_tokens"] - 1)
    return out


def keeps(latency, slo):
    return all(latency.get(name, 0) <= limit for name, limit in slo.items())


def run_figures(rows, begins, ends, slo):
    """The figures of the requests scheduled from `begins` to `ends`, seconds since the start of the run."""
    asked = [row for row in rows if begins <= row["scheduled"] < ends]
    done = [latencies(row) for row in asked if row["error"] is None and row["chunks"]]
    out = {"requests": len(asked), "failed": len(asked) - len(done),
           "goodput": sum(keeps(each, slo) for each in done) / (ends - begins)}
    for name in LATENCIES:
        values = [each[name] for each in done if name in each]
        out |= {f"{name}_mean": statistics.fmean(values) if values else None,
                f"{name}_p50": percentile(values, 0.5), f"{name}_p99": percentile(values, 0.99)}
        out[f"{name}_max"] = max(values, default=None)
    return out


def rate_of_most(rows, part=0.9):
    """Requests per second until that part of those that came at once is answered."""
    ends = sorted(row["chunks"][-1][0] for row in rows if row["error"] is None and row["chunks"])
    most = ends[:max(1, round(part * len(rows)))]
    return len(most) / most[-1]


def interval(ratios):
    """(mean, low, high) of ratios, in logarithms; of one ratio the bounds are None."""
    logs = [math.log(ratio) for ratio in ratios]
    mean = statistics.fmean(logs)
    if len(logs) < 2:
        return math.exp(mean), None, None
    half = intervals.half(logs)
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def compare(runs, policy, base, figure):
    """`interval` of `policy` over `base` in the rounds that have both, or None where there is nothing to divide.

    `runs`: {policy: {round: figures}} of one load.
    """
    pairs = [(runs[policy][r].get(figure), runs[base][r].get(figure)) for r in sorted(runs[policy]) if r in runs[base]]
    ratios = [a / b for a, b in pairs if a and b]
    return interval(ratios) if ratios else None


def better(runs, policy, bases):
    """Whether a policy could be the default by what was measured: against each of `bases` the interval of its P99 end to
    end does not lie above theirs, and its mean is below theirs. The second value says whether the means' intervals are
    below, too, so that it is more than chance."""
    could = sure = True
    for base in bases:
        tail, mean = (compare(runs, policy, base, figure) for figure in ("e2e_p99", "e2e_mean"))
        if tail is None or mean is None or tail[1] is None:
            return False, False
        could &= tail[1] <= 1 and mean[0] < 1
        sure &= mean[2] < 1
    return could, could and sure


def cell(value, low=None, high=None):
    return f"{value:.2f}" if low is None else f"{value:.2f} ({low:.2f}–{high:.2f})"


def median(runs, policy, figure):
    values = [figures[figure] for figures in runs[policy].values() if figures.get(figure) is not None]
    return statistics.median(values) if values else None


def number(value):
    if value is None:
        return "–"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def table(runs, policies):
    """Markdown for one load: what the first policy had, medians over the rounds; and the others against it."""
    base = policies[0]
    shown = [*FIGURES, "goodput"]
    counts = ["preemptions", "recomputed", "kv_p95", "waiting_p95", "ttft_max"]
    lines = ["| | " + " | ".join([base, *(f"{policy} / {base}" for policy in policies[1:])]) + " |",
             "|---|" + "---|" * len(policies)]
    for figure in shown:
        cells = [number(median(runs, base, figure))]
        for policy in policies[1:]:
            ratio = compare(runs, policy, base, figure)
            cells.append(cell(*ratio) if ratio else "–")
        unit = ", requests/s" if figure == "goodput" else ", ms"
        lines.append(f"| {figure.replace('_', ' ')}{unit} | " + " | ".join(cells) + " |")
    names = {"kv_p95": "KV use, P95", "waiting_p95": "in the router's queue, P95", "ttft_max": "longest TTFT, ms",
             "recomputed": "recomputed tokens"}
    for figure in counts:
        cells = [number(median(runs, policy, figure)) for policy in policies]
        lines.append(f"| {names.get(figure, figure)} (each) | " + " | ".join(cells) + " |")
    return "\n".join(lines)
