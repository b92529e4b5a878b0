"""Pictures of a search for the highest load: one mark per load that was tried."""

from matplotlib.lines import Line2D

from baton_analysis import style
from baton_analysis.result import METRICS, Load, Result

METRIC_NAMES = {"ttft": "TTFT", "tpot": "TPOT", "itl": "inter-token latency",
                "e2e": "end-to-end latency", "max-gap": "largest gap of an answer"}
AXIS = {"rate": "rate of arrivals, requests/s", "concurrency": "requests under way"}
NO_POINTS = "no load of the search was measured to its end"


def _answer(result: Result) -> str:
    return result.answer[0].upper() + result.answer[1:]


def _mark(axes, load: Load, x: float, y: float, color: str, name: str):
    axes.plot([x], [y], color=color, zorder=4, markersize=7, gid=f"{name}-{load.value:g}",
              **MARKS[load.verdict][1])


MARKS = {
    "keeps": ("keeps the SLO", {"marker": "o"}),
    "breaks": ("breaks the SLO", {"marker": "o", "markerfacecolor": "white"}),
    "unjudged": ("not judged", {"marker": "D", "markerfacecolor": "white", "alpha": 0.5}),
}


def _mark_legend(result: Result, color=style.BLUE):
    found = {load.verdict for load in result.loads}
    return [Line2D([], [], color=color, linestyle="", label=label, **mark)
            for verdict, (label, mark) in MARKS.items() if verdict in found]


def _percentile_key(percentile: float) -> str:
    known = (50, 90, 95, 99, 99.9)
    return f"p{min(known, key=lambda p: abs(p - percentile)):g}"


def _best_legend(result: Result):
    if result.best is None:
        return []
    return [Line2D([], [], color=style.GREEN, linestyle=":", label="highest that kept it")]


def _best_line(axes, result: Result):
    if result.best is not None:
        axes.axvline(result.best, color=style.GREEN, linewidth=1.3, linestyle=":")


def latency(result: Result, rows):
    """A panel per metric of the SLO: its percentile and the median against the load."""
    loads = result.loads
    if not loads or result.slo is None:
        return NO_POINTS
    metrics = [name for name in result.slo.limits
               if any(load.figures.get(METRICS[name]) for load in loads)]
    key = _percentile_key(result.slo.percentile)
    columns = min(2, len(metrics))
    lines = (len(metrics) + 1) // 2
    fig, axes = style.figure(_answer(result), f"Latency against {result.variable} · {result.model} · "
                             f"SLO: {result.slo.text}", 1.5 + 3.1 * lines, lines, columns, legend=2)
    panels = list(axes.flat)
    for panel in panels[len(metrics):]:
        panel.remove()
    for panel, name in zip(panels, metrics):
        _latency_panel(panel, result, loads, name, key)
    style.legend_under_titles(fig, [
        Line2D([], [], color=style.BLUE, label=f"{key.upper()}, 95 % interval shaded"),
        Line2D([], [], color=style.SKY, linestyle="-.", label="median"),
        *_mark_legend(result),
        *_best_legend(result)], columns=4)
    return fig


def _latency_panel(panel, result: Result, loads: list[Load], name: str, key: str):
    seen = [(load, load.figures[METRICS[name]]) for load in loads if load.figures.get(METRICS[name])]
    x = [load.value for load, _ in seen]
    tail = [summary[key] for _, summary in seen]
    median = [summary["p50"] for _, summary in seen]
    intervals = [(summary.get("ci95") or {}).get(key) or [summary[key]] * 2 for _, summary in seen]
    joined = [i for i, (load, _) in enumerate(seen) if load.verdict != "unjudged"]

    def of(values):
        return [values[i] for i in joined]

    panel.plot(of(x), of(median), color=style.SKY, linestyle="-.")
    panel.plot(of(x), of(tail), color=style.BLUE)
    panel.fill_between(of(x), of([low for low, _ in intervals]), of([high for _, high in intervals]),
                       color=style.BLUE, alpha=0.3, linewidth=0)
    panel.errorbar(of(x), of(tail), _beside(of(tail), of(intervals)), fmt="none", ecolor=style.BLUE,
                   elinewidth=1, capsize=3)
    for (load, _), y in zip(seen, tail):
        _mark(panel, load, load.value, y, style.BLUE, name)
    _best_line(panel, result)
    limit = result.slo.limits[name]
    style.scale(panel, "x", x, wide=8)
    style.scale(panel, "y", tail + median + [limit, 1.15 * limit])
    style.limit_line(panel, "y", limit, f"SLO {style.milliseconds(limit)}")
    panel.set_title(METRIC_NAMES[name])
    panel.set_xlabel(AXIS[result.variable])
    panel.set_ylabel("ms")


def _beside(values: list[float], intervals) -> list[list[float]]:
    """How far each interval reaches below and above its value."""
    return [[max(0.0, value - low) for value, (low, _) in zip(values, intervals)],
            [max(0.0, high - value) for value, (_, high) in zip(values, intervals)]]


def goodput(result: Result, rows):
    """Requests that kept every limit, against the load."""
    loads = result.loads
    if not loads or result.slo is None:
        return NO_POINTS
    x = [load.value for load in loads]
    good = [load.figures["request_goodput"] for load in loads]
    done = [load.figures["request_throughput"] for load in loads]
    fig, axes = style.figure(_answer(result), f"Goodput against {result.variable} · {result.model} · "
                             f"requests within {result.slo.text}", 4.8,
                             legend=2)
    panel = axes[0][0]
    handles = [Line2D([], [], color=style.BLUE, label="goodput"),
               Line2D([], [], color=style.SKY, linestyle="-.", label="all answers")]
    if result.variable == "rate":
        panel.plot([0, max(x)], [0, max(x)], color=style.GREY, linewidth=1, linestyle=":")
        handles.append(Line2D([], [], color=style.GREY, linewidth=1, linestyle=":",
                              label="arrivals"))
    joined = [i for i, load in enumerate(loads) if load.verdict != "unjudged"]
    for values, look in ((done, {"color": style.SKY, "linestyle": "-."}), (good, {"color": style.BLUE})):
        panel.plot([x[i] for i in joined], [values[i] for i in joined], **look)
    for load, y in zip(loads, good):
        _mark(panel, load, load.value, y, style.BLUE, "goodput")
    _best_line(panel, result)
    panel.set_xlim(0, 1.05 * max(x))
    panel.set_ylim(0, 1.1 * max(good + done))
    panel.set_xlabel(AXIS[result.variable])
    panel.set_ylabel("requests/s")
    style.legend_under_titles(fig, handles + _mark_legend(result) + _best_legend(result), columns=4)
    return fig


def pareto(result: Result, rows):
    """Speed for one user against tokens of all users, load by load."""
    loads = [load for load in result.loads if load.figures.get("tokens_per_s_per_user")]
    if len(loads) < 2:
        return "it needs two loads or more" if loads else NO_POINTS
    x = [load.figures["tokens_per_s_per_user"]["p50"] for load in loads]
    y = [load.figures["output_throughput"] for load in loads]
    fig, axes = style.figure("Speed for one user against output of the server, by load",
                             f"{result.model} · each mark is one load, named beside it "
                             f"({AXIS[result.variable]}); up and right is better", 5.0, legend=1)
    panel = axes[0][0]
    joined = [i for i, load in enumerate(loads) if load.verdict == "keeps"]
    panel.plot([x[i] for i in joined], [y[i] for i in joined], color=style.BLUE, linewidth=1.2)
    for load, speed, output in zip(loads, x, y):
        _mark(panel, load, speed, output, style.BLUE, "load")
    style.scale(panel, "x", x)
    style.scale(panel, "y", y)
    limit = result.slo.limits.get("tpot") if result.slo else None
    if limit:
        low, high = panel.get_xlim()
        panel.set_xlim(min(low, 0.9 * 1000 / limit), max(high, 1.1 * 1000 / limit))
        style.limit_line(panel, "x", 1000 / limit,
                         f"SLO: TPOT {style.milliseconds(limit)} = {style.number(1000 / limit)} tokens/s")
    _name_marks(panel, result, loads, x, y)
    panel.set_xlabel("output tokens/s of one user (1 / TPOT, median)")
    panel.set_ylabel("output tokens/s, all users together")
    style.legend_under_titles(fig, _mark_legend(result))
    return fig


# Where a name may stand beside its mark: points to the right and up of it, and which end is there.
NAME_PLACES = ((8, 4, "left"), (8, -13, "left"), (-8, 4, "right"), (-8, -13, "right"), (0, 13, "center"),
               (0, -22, "center"), (22, 20, "left"), (22, -29, "left"), (-22, 20, "right"), (-22, -29, "right"))
NAME_HEIGHT = 11  # points
CHARACTER = 6


def _name_marks(panel, result: Result, loads: list[Load], x: list[float], y: list[float]):
    """The best load first, then as many as have room: no name on another name or mark."""
    in_points = 72 / panel.figure.dpi
    marks = [panel.transData.transform(at) * in_points for at in zip(x, y)]
    taken = [(at[0] - 4, at[1] - 4, at[0] + 4, at[1] + 4) for at in marks]
    for i in sorted(range(len(loads)), key=lambda i: (loads[i].value != result.best, i)):
        name = style.number(loads[i].value)
        for right, up, end in NAME_PLACES:
            box = _name_box(marks[i], right, up, end, CHARACTER * len(name))
            if any(_overlap(box, other) for other in taken):
                continue
            taken.append(box)
            best = loads[i].value == result.best
            far = max(abs(right), abs(up)) > 15
            panel.annotate(name, (x[i], y[i]), (right, up), textcoords="offset points", size=9, ha=end,
                           color=style.INK, weight="bold" if best else "normal", gid=f"name-{name}",
                           arrowprops={"arrowstyle": "-", "color": style.GREY, "lw": 0.6} if far else None)
            break


def _name_box(mark, right: float, up: float, end: str, width: float):
    left = mark[0] + right - {"left": 0.0, "center": width / 2, "right": width}[end]
    bottom = mark[1] + up
    return left, bottom, left + width, bottom + NAME_HEIGHT


def _overlap(box, other) -> bool:
    return box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3]
