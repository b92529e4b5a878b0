"""What happened to each request, and when."""

from dataclasses import replace
from statistics import median

from matplotlib.lines import Line2D
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path
from matplotlib.ticker import FuncFormatter

from baton_analysis import style
from baton_analysis.groups import NO_ROWS, measured_groups
from baton_analysis.result import Result
from baton_analysis.rows import Chunk, Request, Rows

LANES = 48
PHASES = (("client", "waiting in the client", style.GREY), ("queue", "queue", style.ORANGE),
          ("prefill", "prefill", style.BLUE), ("rest", "until first token", style.SKY),
          ("transfer", "KV transfer", style.PURPLE))


def phases_of(request: Request) -> list[tuple[str, float, float]]:
    """(phase, from, to) until decoding goes on: up to the first token what the server does not say is
    "rest"; the KV cache travels between the first token and the second.
    """
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
    until("rest", end)
    if request.timings and len(request.chunks) > 1:
        end = request.chunks[1].at
        until("transfer", at + request.timings.kv_transfer / 1000)
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
    groups = measured_groups(result, rows)
    if not groups:
        return NO_ROWS
    run = groups[0].members[0].run
    lanes, aligned = _aligned(_lanes(run.requests))
    part = "all" if len(lanes) == len(run.requests) else f"{len(lanes)} around the longest TTFT"
    fig, axes = style.figure("Token timeline: one lane per request, one tick per message with tokens",
                             f"{result.model} · {run.label or groups[0].name} · {part} of "
                             f"{len(run.requests):,} requests", 1.9 + 0.105 * max(24, len(lanes)),
                             legend=1)
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
        phases = phases_of(request)
        for phase, begin, end in phases:
            bars.setdefault(phase, []).append((lane, begin, end))
        if request.chunks:
            begin = max(request.chunks[0].at, phases[-1][2] if phases else 0)
            bars.setdefault("answer", []).append((lane, begin, request.chunks[-1].at))
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
    if median(request.ended - request.scheduled for request in lanes) > 0.04 * (end - start):
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
