"""What the server held over time: requests, and KV blocks."""

from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, PercentFormatter

from baton_analysis import style
from baton_analysis.groups import NO_ROWS, measured_groups
from baton_analysis.result import Result, reading_interval, server_series
from baton_analysis.rows import Rows, Run

MOST_STEPS = 1200
SPANS = 300
FEW_READINGS = 6


def under_way(run: Run) -> tuple[list[float], list[int], list[int]]:
    """Moments, and from each on how many requests wait for their first token and how many answer."""
    changes = []
    for request in run.requests:
        first = min(request.chunks[0].at if request.chunks else request.ended, request.ended)
        changes += [(request.sent, 1, 0), (first, -1, 1), (request.ended, 0, -1)]
    changes.sort()
    times, waiting, answering = [0.0], [0], [0]
    for at, wait, answer in changes:
        if at > times[-1]:
            times.append(at)
            waiting.append(waiting[-1])
            answering.append(answering[-1])
        waiting[-1] += wait
        answering[-1] += answer
    return times, waiting, answering


def load(result: Result, rows: Rows | None):
    """Requests under way, and the KV memory of the workers, over time."""
    groups = measured_groups(result, rows)
    if not groups:
        return NO_ROWS
    member = groups[0].members[0]
    series = server_series(member.described)
    read = f"every {reading_interval(member.described):g} s" if series else "never: without --metrics"
    fig, axes = style.figure("Concurrency" + (" and KV cache use" if series else "") + " over time",
                             f"{result.model} · {member.run.label or groups[0].name} · "
                             f"KV use was read {read}",
                             6.6 if series else 4.4, 2 if series else 1, 1, legend=1, sharex=True)
    panel = axes[0][0]
    handles = _concurrency_panel(panel, member.run)
    if member.window:
        for axis in axes.flat:
            for moment in member.window:
                axis.axvline(moment, color=style.INK, linewidth=1, linestyle=":")
        handles.append(Line2D([], [], color=style.INK, linewidth=1, linestyle=":", label="measured window"))
    if series:
        _kv_panel(axes[1][0], series)
    axes[-1][0].set_xlabel("seconds since the start of the run")
    style.legend_under_titles(fig, handles)
    return fig


def _concurrency_panel(panel, run: Run):
    """Every step; of more steps than can be seen, the mean and the peak of short spans."""
    times, waiting, answering = under_way(run)
    total = [a + b for a, b in zip(waiting, answering)]
    handles = [Patch(color=style.ORANGE, label="waiting for their first token"),
               Patch(color=style.BLUE, label="receiving tokens")]
    most = max(1, *total)
    if len(times) > MOST_STEPS:
        span = times[-1] / SPANS
        edges = [i * span for i in range(SPANS + 1)]
        peaks = span_peaks(times, total, span)
        waiting, answering = (span_means(times, values, span) for values in (waiting, answering))
        panel.step(edges, peaks + peaks[-1:], where="post", color=style.GREY, linewidth=0.8)
        handles.append(Line2D([], [], color=style.GREY, linewidth=0.8,
                              label=f"peak of every {style.milliseconds(1000 * span)}"))
        times, waiting, answering = edges, waiting + waiting[-1:], answering + answering[-1:]
    panel.stackplot(times, answering, waiting, step="post", colors=(style.BLUE, style.ORANGE),
                    linewidth=0)
    panel.set_ylabel("requests under way")
    panel.yaxis.set_major_locator(MaxNLocator(integer=True))
    panel.set_ylim(0, 1.08 * most)
    panel.set_xlim(0, times[-1])
    return handles


def _pieces(times: list[float], span: float):
    """(step, span, seconds) for every span that a step reaches into."""
    for step, (begin, end) in enumerate(zip(times, times[1:])):
        for index in range(int(begin / span), min(int(end / span), SPANS - 1) + 1):
            seconds = min(end, (index + 1) * span) - max(begin, index * span)
            if seconds > 0:
                yield step, index, seconds


def span_means(times: list[float], values: list[int], span: float) -> list[float]:
    means = [0.0] * SPANS
    for step, index, seconds in _pieces(times, span):
        means[index] += values[step] * seconds / span
    return means


def span_peaks(times: list[float], values: list[int], span: float) -> list[int]:
    peaks = [0] * SPANS
    for step, index, _ in _pieces(times, span):
        peaks[index] = max(peaks[index], values[step])
    return peaks


def _kv_panel(panel, series: dict[str, list[tuple[float, float]]]):
    lines = (style.BLUE, "-"), (style.GREEN, "--"), (style.PURPLE, "-."), (style.ORANGE, ":")
    for (color, line), (name, samples) in zip(lines, sorted(series.items())):
        panel.plot([at for at, _ in samples], [value for _, value in samples], color=color, marker=".",
                   linestyle=line, label=name, gid=f"kv-{name}")
    most = max(value for samples in series.values() for _, value in samples)
    panel.set_ylim(0, min(1.02, max(0.01, 1.25 * most)))
    panel.yaxis.set_major_formatter(PercentFormatter(1))
    panel.set_ylabel("KV blocks in use")
    read = max(len(samples) for samples in series.values())
    if read < FEW_READINGS:
        panel.text(0.5, 0.5, f"{read} readings: what rose and fell between them is not seen", ha="center",
                   color=style.GREY, transform=panel.transAxes)
    panel.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncol=4, borderaxespad=0.2)
