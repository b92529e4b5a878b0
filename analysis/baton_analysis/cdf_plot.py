"""How the latencies of requests are spread."""

from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter

from baton_analysis import style
from baton_analysis.groups import NO_ROWS, measured_groups
from baton_analysis.result import Result
from baton_analysis.rows import Rows

CURVE_POINTS = 1500


def curve(samples: list[float]) -> tuple[list[float], list[float]]:
    """The cumulative distribution, thinned in the middle; the slowest hundred are all there."""
    ordered = sorted(samples)
    count = len(ordered)
    step = max(1, count // CURVE_POINTS)
    ranks = [rank for rank in range(count) if rank % step == 0 or rank >= count - 100]
    return [ordered[rank] for rank in ranks], [(rank + 1) / count for rank in ranks]


def percentile(samples: list[float], percent: float) -> float:
    """The percentile by linear interpolation, as result.json has it."""
    ordered = sorted(samples)
    at = (len(ordered) - 1) * percent / 100
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def carries(count: int, percent: float) -> bool:
    """Whether so many samples say something about a percentile, as statistics.h has it."""
    return (percent / 100) ** count <= 0.025


PANELS = (
    ("ttft", "TTFT", "time to first token", "requests", lambda r: [r.ttft_ms]),
    ("tpot", "TPOT", "per output token after the first", "requests", lambda r: [r.tpot_ms]),
    ("itl", "ITL", "gaps between messages", "gaps", lambda r: r.gaps_ms),
    ("e2e", "E2E", "arrival to last token", "requests", lambda r: [r.e2el_ms]),
)


def cdf(result: Result, rows: Rows | None):
    """TTFT, TPOT, ITL and end-to-end latency: the share that was at most so slow."""
    groups = measured_groups(result, rows)
    if not groups:
        return NO_ROWS
    groups = groups[:len(style.SERIES)]
    many = len(groups) > 1
    runs = sum(len(group.members) for group in groups)
    requests = sum(len(group.completed) for group in groups)
    what = f"{len(groups)} kinds of run" if many else groups[0].name
    fig, axes = style.figure("Latency of requests: how it is spread",
                             f"{result.model} · {what} · {requests:,} completed requests of "
                             f"{runs} run{'s' if runs > 1 else ''}", 7.2, 2, 2, legend=1 if many else 0)
    for panel, (name, title, meaning, unit, samples_of) in zip(axes.flat, PANELS):
        drawn = []
        for color, group in zip(style.SERIES, groups):
            samples = [s for r in group.completed for s in samples_of(r) if s is not None]
            if samples:
                panel.plot(*curve(samples), color=color, drawstyle="steps-post",
                           gid=f"{name}-{len(drawn)}")
                drawn.append(samples)
        panel.set_title(title)
        panel.set_xlabel(f"{meaning}, ms")
        panel.set_ylabel(f"share of {unit}")
        _finish_cdf(panel, result, name, drawn)
    if many:
        style.legend_under_titles(fig, [Line2D([], [], color=color, label=group.name)
                                        for color, group in zip(style.SERIES, groups)], columns=3)
    return fig


def _finish_cdf(panel, result: Result, name: str, drawn: list[list[float]]):
    panel.set_ylim(0, 1.02)
    panel.yaxis.set_major_formatter(PercentFormatter(1))
    if not drawn:
        panel.text(0.5, 0.5, "no samples: answers of one message", ha="center", color=style.GREY,
                   transform=panel.transAxes)
        return
    limit = result.slo.limits.get(name) if result.slo else None
    shown = [value for samples in drawn for value in samples] + ([limit] if limit else [])
    style.scale(panel, "x", shown, from_zero=False)
    if limit:
        kept = ""
        if len(drawn) == 1:
            share = sum(value <= limit for value in drawn[0]) / len(drawn[0])
            kept = f", kept by {100 * share:.3g} %"
        style.limit_line(panel, "x", limit, f"SLO {style.milliseconds(limit)}{kept}")
    if len(drawn) == 1:
        parts = " · ".join(f"P{p:g} {style.number(percentile(drawn[0], p))}" for p in (50, 90, 99)
                           if carries(len(drawn[0]), p))
        panel.set_title(parts and f"{parts} ms", loc="right", size=9, weight="normal", color=style.GREY)
