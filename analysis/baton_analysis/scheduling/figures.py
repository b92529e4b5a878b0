"""Means over seeds with intervals, differences seed by seed, and the rule that chooses the default policy."""

import statistics

from baton_analysis import intervals

# What is kept of a run, by its place in what `baton sim --json` says of it.
FIGURES = ("ttft_ms.mean", "ttft_ms.p50", "ttft_ms.p99", "ttft_ms.max", "tpot_ms.mean", "tpot_ms.p99", "e2e_ms.mean",
           "e2e_ms.p50", "e2e_ms.p99", "e2e_ms.max", "completed", "refused", "output_throughput", "request_goodput",
           "goodput_share", "preemptions", "kv_use_p50", "kv_use_p95", "wasted_share")  # yapf: disable


def interval(values: list[float]) -> tuple[float, float]:
    """Mean and half a 95 % interval of it; 0 of one value."""
    return statistics.mean(values), intervals.half(values)


def relative(values: list[float], base: list[float]) -> tuple[float, float]:
    """Mean and half interval of value / base - 1, seed by seed: both met the same requests at the same times."""
    return interval([value / other - 1 for value, other in zip(values, base, strict=True)])


def gather(runs: list[dict]) -> dict[str, list[float]]:
    """The figures of FIGURES, each a list with a value per run."""
    return {name: [_value(run, name) for run in runs] for name in FIGURES}


def _value(run: dict, name: str) -> float:
    value = run
    for key in name.split("."):
        value = None if value is None else value[key]
    return float(f"{value or 0:.5g}")


def score(figures: dict[str, list[float]]) -> float:
    """What is tuned for, less is better: mean times P99 of end to end, so that neither is bought with the other."""
    return statistics.mean(figures["e2e_ms.mean"]) * statistics.mean(figures["e2e_ms.p99"])


def verdict(found: dict, others: dict[str, dict]) -> dict:
    """Whether a policy with the figures `found` may be the default beside `others`: seed by seed, its P99 of end to end is
    not above theirs (the interval of the difference reaches zero or lies below), and its mean is below (the interval
    lies below zero: what differs by chance alone is no reason to change a default)."""
    against = {}
    for name, other in others.items():
        p99 = relative(found["e2e_ms.p99"], other["e2e_ms.p99"])
        mean = relative(found["e2e_ms.mean"], other["e2e_ms.mean"])
        against[name] = {"p99_not_above": p99[0] - p99[1] <= 0, "mean_below": mean[0] + mean[1] < 0, "p99": p99, "mean": mean}
    holds = all(each["p99_not_above"] and each["mean_below"] for each in against.values())
    return {"holds": holds, "against": against}
