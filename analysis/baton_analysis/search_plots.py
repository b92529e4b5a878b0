"""Pictures of a search for the highest load: one mark per load that was tried."""

from matplotlib.lines import Line2D

from baton_analysis import style
from baton_analysis.groups import load_name
from baton_analysis.result import METRICS, Load, Result

METRIC_NAMES = {"ttft": "TTFT", "tpot": "TPOT", "itl": "inter-token latency",
                "e2e": "end-to-end latency", "max-gap": "largest gap of an answer"}
AXIS = {"rate": "rate of arrivals, requests/s", "concurrency": "requests under way"}
NO_SEARCH = "the result holds no points of a search; run with --find-max"


def _title(result: Result) -> str:
    if result.best is None:
        return f"no {result.variable} that was tried keeps the SLO"
    best = load_name(result.variable, result.best)
    above = [load.verdict for load in result.loads if load.value > result.best]
    return f"the SLO holds up to {best}" if "breaks" in above[:1] else f"the SLO holds at {best}"


def _mark(axes, load: Load, x: float, y: float, color: str, name: str):
    axes.plot([x], [y], color=color, zorder=4, markersize=7, gid=f"{name}-{load.value:g}",
              **MARKS[load.verdict][1])


MARKS = {
    "keeps": ("keeps the SLO", {"marker": "o"}),
    "breaks": ("does not", {"marker": "o", "markerfacecolor": "white"}),
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
    return [Line2D([], [], color=style.GREEN, linestyle=":", label="highest that keeps it")]


def _best_line(axes, result: Result):
    if result.best is not None:
        axes.axvline(result.best, color=style.GREEN, linewidth=1.3, linestyle=":")


def latency(result: Result, rows):
    """A panel per metric of the SLO: its percentile and the median against the load."""
    loads = result.loads
    if not loads or result.slo is None:
        return NO_SEARCH
    metrics = [name for name in result.slo.limits
               if any(load.figures.get(METRICS[name]) for load in loads)]
    key = _percentile_key(result.slo.percentile)
    columns = min(2, len(metrics))
    lines = (len(metrics) + 1) // 2
    fig, axes = style.figure(f"Latency against {result.variable}: {_title(result)}",
                             f"{result.model} · SLO: {result.slo.text}", 1.5 + 3.1 * lines, lines,
                             columns, legend=True)
    panels = list(axes.flat)
    for panel in panels[len(metrics):]:
        panel.remove()
    for panel, name in zip(panels, metrics):
        _latency_panel(panel, result, loads, name, key)
    style.legend_under_titles(fig, [
        Line2D([], [], color=style.BLUE, label=f"{key.upper()}, 95 % interval shaded"),
        Line2D([], [], color=style.SKY, linestyle="-.", label="median"),
        *_mark_legend(result),
        *_best_legend(result)], columns=7)
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
                       color=style.BLUE, alpha=0.18, linewidth=0)
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


def goodput(result: Result, rows):
    """Requests that kept every limit, against the load."""
    loads = result.loads
    if not loads or result.slo is None:
        return NO_SEARCH
    x = [load.value for load in loads]
    good = [load.figures["request_goodput"] for load in loads]
    done = [load.figures["request_throughput"] for load in loads]
    fig, axes = style.figure(f"Goodput against {result.variable}: {_title(result)}",
                             f"{result.model} · goodput counts requests that keep every limit of the "
                             f"SLO: {result.slo.text}", 4.8, legend=True)
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
    style.legend_under_titles(fig, handles + _mark_legend(result) + _best_legend(result))
    return fig


def pareto(result: Result, rows):
    """Speed for one user against tokens of all users, load by load."""
    loads = [load for load in result.loads if load.figures.get("tokens_per_s_per_user")]
    if len(loads) < 2:
        return f"it needs two loads or more; {NO_SEARCH}" if not loads else "only one load was measured"
    x = [load.figures["tokens_per_s_per_user"]["p50"] for load in loads]
    y = [load.figures["output_throughput"] for load in loads]
    fig, axes = style.figure("Speed for one user against output of the server, by load",
                             f"{result.model} · each mark is one load, named beside it "
                             f"({AXIS[result.variable]}); up and right is better", 5.0, legend=True)
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


def _name_marks(panel, result: Result, loads: list[Load], x: list[float], y: list[float]):
    """The best load first, then as many as have room."""
    order = sorted(range(len(loads)), key=lambda i: (loads[i].value != result.best, i))
    placed = []
    for i in order:
        at = panel.transData.transform((x[i], y[i]))
        if any(abs(at[0] - other[0]) < 46 and abs(at[1] - other[1]) < 16 for other in placed):
            continue
        placed.append(at)
        panel.annotate(style.number(loads[i].value), (x[i], y[i]), (8, 3), textcoords="offset points",
                       size=9, color=style.INK,
                       weight="bold" if loads[i].value == result.best else "normal")
