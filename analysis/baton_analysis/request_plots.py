"""Pictures of requests: how their latencies spread, and what happened when."""

from dataclasses import replace

from matplotlib.lines import Line2D
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from baton_analysis import style
from baton_analysis.groups import Group, groups_of
from baton_analysis.result import Result, server_series
from baton_analysis.rows import Chunk, Request, Rows, Run

LANES = 48
CURVE_POINTS = 1500
NO_ROWS = "there are no rows with requests; run with --rows"


def _groups(result: Result, rows: Rows | None) -> list[Group]:
    return [group for group in groups_of(result, rows) if group.completed] if rows else []


def curve(samples: list[float]) -> tuple[list[float], list[float]]:
    """The cumulative distribution, thinned in the middle; the slowest hundred are all there."""
    ordered = sorted(samples)
    count = len(ordered)
    step = max(1, count // CURVE_POINTS)
    ranks = [rank for rank in range(count) if rank % step == 0 or rank >= count - 100]
    return [ordered[rank] for rank in ranks], [(rank + 1) / count for rank in ranks]


def percentile(samples: list[float], percent: float) -> float:
    """By linear interpolation, as result.json."""
    ordered = sorted(samples)
    at = (len(ordered) - 1) * percent / 100
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


PANELS = (
    ("ttft", "TTFT", "time to first token", "requests", lambda r: [r.ttft_ms]),
    ("tpot", "TPOT", "time per output token after the first", "requests", lambda r: [r.tpot_ms]),
    ("itl", "ITL", "every gap between messages with tokens", "gaps", lambda r: r.gaps_ms),
    ("e2e", "E2E", "arrival to last token", "requests", lambda r: [r.e2el_ms]),
)


def cdf(result: Result, rows: Rows | None):
    """TTFT, TPOT, ITL and end-to-end latency: the share that was at most so slow."""
    groups = _groups(result, rows)
    if not groups:
        return NO_ROWS
    groups = groups[:len(style.SERIES)]
    many = len(groups) > 1
    runs = sum(len(group.members) for group in groups)
    requests = sum(len(group.completed) for group in groups)
    what = f"{len(groups)} loads" if many else groups[0].name
    fig, axes = style.figure("Latency of requests: how it is spread",
                             f"{result.model} · {what} · {requests:,} completed requests of "
                             f"{runs} run{'s' if runs > 1 else ''}", 7.2, 2, 2, legend=many)
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
        parts = " · ".join(f"P{p:g} {style.number(percentile(drawn[0], p))}" for p in (50, 90, 99))
        panel.set_title(parts, loc="right", size=9, weight="normal", color=style.GREY)


PHASES = (("client", "waiting in the client", style.GREY), ("queue", "queue", style.ORANGE),
          ("prefill", "prefill", style.BLUE), ("transfer", "KV transfer", style.PURPLE),
          ("rest", "until first token", style.SKY))


def phases_of(request: Request) -> list[tuple[str, float, float]]:
    """(phase, from, to) up to the first token; what the server does not say is "rest"."""
    end = request.chunks[0].at if request.chunks else request.ended
    found = []
    at = request.scheduled

    def until(phase: str, moment: float):
        nonlocal at
        moment = min(max(moment, at), end)
        if moment > at:
            found.append((phase, at, moment))
        at = moment

    until("client", request.sent)
    if request.timings:
        until("queue", at + request.timings.queue / 1000)
        until("prefill", at + request.timings.prefill / 1000)
        until("transfer", at + request.timings.kv_transfer / 1000)
    until("rest", end)
    return found


def _lanes(requests: list[Request]) -> list[Request]:
    """Neighbours around the request that waited longest for its first token."""
    ordered = sorted(requests, key=lambda request: request.scheduled)
    if len(ordered) <= LANES:
        return ordered
    waits = [request.ttft_ms or 0 for request in ordered]
    slowest = waits.index(max(waits))
    first = min(max(0, slowest - LANES // 2), len(ordered) - LANES)
    return ordered[first:first + LANES]


def timeline(result: Result, rows: Rows | None):
    """One lane per request: where its time went before the first token, then every token."""
    groups = _groups(result, rows)
    if not groups:
        return NO_ROWS
    run = groups[0].members[0].run
    lanes, aligned = _aligned(_lanes(run.requests))
    part = "all" if len(lanes) == len(run.requests) else f"{len(lanes)} around the longest TTFT"
    fig, axes = style.figure("Token timeline: one lane per request, one tick per message with tokens",
                             f"{result.model} · {run.label or groups[0].name} · {part} of "
                             f"{len(run.requests):,} requests", 1.9 + 0.105 * max(24, len(lanes)),
                             legend=True)
    panel = axes[0][0]
    handles = _draw_lanes(panel, lanes)
    panel.set_ylim(len(lanes) - 0.2, -0.8)
    panel.grid(axis="y", visible=False)
    panel.set_yticks([])
    panel.set_ylabel("requests by arrival, first on top")
    _time_axis(panel, *_span(lanes), aligned)
    style.legend_under_titles(fig, handles, columns=8)
    return fig


def _draw_lanes(panel, lanes: list[Request]):
    """Bars of phases, ticks of messages, crosses where a request broke off; handles for a legend."""
    bars = {}
    for lane, request in enumerate(lanes):
        for phase, begin, end in phases_of(request):
            bars.setdefault(phase, []).append((lane, begin, end))
        if request.chunks:
            bars.setdefault("answer", []).append((lane, request.chunks[0].at, request.chunks[-1].at))
    colors = {phase: color for phase, _, color in PHASES}
    for phase, spans in bars.items():
        panel.barh([lane for lane, _, _ in spans], [end - begin for _, begin, end in spans],
                   left=[begin for _, begin, _ in spans], height=0.72,
                   color=colors.get(phase, style.PALE), linewidth=0)
    panel.add_patch(PathPatch(_ticks(lanes), edgecolor=style.GREEN, facecolor="none", linewidth=0.8,
                              gid="tokens"))
    start, stop = _span(lanes)
    handles = [Patch(color=color, label=name) for phase, name, color in PHASES
               if any(end - begin > 0.002 * (stop - start) for _, begin, end in bars.get(phase, []))]
    handles.append(Line2D([], [], color=style.GREEN, marker="|", linestyle="", markersize=9,
                          label="token"))
    return handles + _mark_ends(panel, lanes)


def _span(lanes: list[Request]) -> tuple[float, float]:
    return min(request.scheduled for request in lanes), max(request.ended for request in lanes)


def _time_axis(panel, start: float, end: float, aligned: bool):
    panel.set_xlim(start - 0.01 * (end - start), end + 0.02 * (end - start))
    if not aligned:
        panel.set_xlabel("seconds since the start of the run")
    elif end >= 2:
        panel.set_xlabel("seconds since its arrival")
    else:
        panel.set_xlabel("milliseconds since its arrival")
        panel.xaxis.set_major_formatter(FuncFormatter(lambda seconds, _: f"{1000 * seconds:g}"))


def _aligned(lanes: list[Request]) -> tuple[list[Request], bool]:
    """Each lane from its own arrival, where requests are so short or rare that they would be dots."""
    start, end = _span(lanes)
    if percentile([request.ended - request.scheduled for request in lanes], 50) > 0.04 * (end - start):
        return lanes, False
    return [_shifted(request, -request.scheduled) for request in lanes], True


def _shifted(request: Request, by: float) -> Request:
    return replace(request, scheduled=request.scheduled + by, sent=request.sent + by,
                   ended=request.ended + by,
                   chunks=tuple(Chunk(chunk.at + by, chunk.tokens) for chunk in request.chunks))


def _ticks(lanes: list[Request]) -> Path:
    vertices, codes = [], []
    for lane, request in enumerate(lanes):
        for chunk in request.chunks:
            vertices += [(chunk.at, lane - 0.36), (chunk.at, lane + 0.36)]
            codes += [Path.MOVETO, Path.LINETO]
    return Path(vertices or [(0, 0)], codes or None)


def _mark_ends(panel, lanes: list[Request]):
    handles = []
    for name, color, chosen in (
            ("failed", style.RED, [i for i, r in enumerate(lanes) if r.error]),
            ("cancelled", style.INK, [i for i, r in enumerate(lanes) if r.cancelled])):
        if chosen:
            panel.plot([lanes[i].ended for i in chosen], chosen, "x", color=color, markersize=6,
                       markeredgewidth=2)
            handles.append(Line2D([], [], marker="x", linestyle="", color=color, markeredgewidth=2,
                                  label=name))
    return handles


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
    groups = _groups(result, rows)
    if not groups:
        return NO_ROWS
    member = groups[0].members[0]
    series = server_series(member.described)
    fig, axes = style.figure("Concurrency" + (" and KV cache use" if series else "") + " over time",
                             f"{result.model} · {member.run.label or groups[0].name}"
                             + ("" if series else " · KV use: no /metrics were read"),
                             6.6 if series else 4.4, 2 if series else 1, 1, legend=True, sharex=True)
    panel = axes[0][0]
    times, waiting, answering = under_way(member.run)
    panel.stackplot(times, answering, waiting, step="post", colors=(style.BLUE, style.ORANGE),
                    linewidth=0)
    panel.set_ylabel("requests under way")
    panel.yaxis.set_major_locator(MaxNLocator(integer=True))
    panel.set_ylim(0, 1.08 * max(1, *(a + b for a, b in zip(waiting, answering))))
    panel.set_xlim(0, times[-1])
    handles = [Patch(color=style.ORANGE, label="waiting for their first token"),
               Patch(color=style.BLUE, label="receiving tokens")]
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


def _kv_panel(panel, series: dict[str, list[tuple[float, float]]]):
    lines = (style.BLUE, "-"), (style.GREEN, "--"), (style.PURPLE, "-."), (style.ORANGE, ":")
    for (color, line), (name, samples) in zip(lines, sorted(series.items())):
        panel.plot([at for at, _ in samples], [value for _, value in samples], color=color,
                   linestyle=line, label=name, gid=f"kv-{name}")
    panel.set_ylim(0, 1.02)
    panel.yaxis.set_major_formatter(PercentFormatter(1))
    panel.set_ylabel("KV blocks in use")
    panel.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncol=4, borderaxespad=0.2)
