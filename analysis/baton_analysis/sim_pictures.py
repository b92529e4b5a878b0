"""Pictures of simulations: what each policy came to."""

from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, MaxNLocator, PercentFormatter

from baton_analysis import style
from baton_analysis.sim_result import Case, SimResult

METRICS = (("ttft_ms", "ttft", "TTFT", "arrival to first token"),
           ("tpot_ms", "tpot", "TPOT", "per output token after the first"),
           ("e2e_ms", "e2e", "End to end", "arrival to last token"))
AXIS = {"rate": "rate of arrivals, requests/s", "concurrency": "requests under way",
        "time-scale": "factor on the trace's times"}
UNIT = {"rate": "requests/s", "concurrency": "requests under way"}
LINES = ("-", "--")
MOST_LINES = len(style.SERIES) * len(LINES)


def subtitle(result: SimResult, cases: list[Case], interval=True) -> str:
    runs = max(len(case.runs) for case in cases)
    text = f"simulated{at_load(result, cases)}"
    if runs == 1:
        return f"{text} · one run each"
    return f"{text} · means of {runs} runs" + (", with 95 % intervals" if interval else "")


def at_load(result: SimResult, cases: list[Case]) -> str:
    at = cases[0].at
    if at is None:
        return ""
    return f" · {style.number(at)} {UNIT[result.axis]}" if result.axis in UNIT else f" · --{result.axis} {at:g}"


def axis_name(result: SimResult) -> str:
    return AXIS.get(result.axis, f"--{result.axis}")


def look(number: int) -> dict:
    """Of the line of a case: a colour, and dashes once the colours are used up."""
    colors = len(style.SERIES)
    return {"color": style.SERIES[number % colors], "linestyle": LINES[number // colors]}


def legend(fig, names: list[str]):
    handles = [Line2D([], [], label=name, **look(number)) for number, name in enumerate(names)]
    style.legend_under_titles(fig, handles, columns=legend_columns(names))


def legend_columns(names: list[str]) -> int:
    widest = 50 + 6.3 * max(map(len, names))  # pixels, with the line before it
    return max(1, min(6, int(100 * (style.WIDTH - 0.4) // widest)))


def legend_lines(names: list[str]) -> int:
    return -(-len(names) // legend_columns(names))


def too_many(names: list[str]) -> str | None:
    if len(names) <= MOST_LINES:
        return None
    return f"{len(names)} columns, and {MOST_LINES} lines can be told apart; give fewer files or policies"


def latency(result: SimResult):
    """Mean, P50 and P99 of each latency, a row per policy."""
    cases = result.at_top
    fig, axes = _rows("Latency by policy", subtitle(result, cases), cases, 3, 1, legend_=1)
    for panel, (metric, limit, title, meaning) in zip(axes.flat, METRICS):
        shown = []
        for row, case in enumerate(cases):
            values = {key: case.mean(metric, key) for key in MARKS}
            if None in values.values():
                continue
            panel.plot([values["p50"], values["p99"]], [row, row], color=style.PALE, linewidth=5, zorder=1,
                       solid_capstyle="round")
            for key, (_, above, mark) in MARKS.items():
                half = case.half(metric, key)
                shown += [values[key], values[key] + half]
                panel.plot([values[key]], [row + above], zorder=4, linestyle="", **mark)
                if half:
                    panel.errorbar(values[key], row + above, xerr=[[min(half, values[key])], [half]], zorder=3,
                                   fmt="none", ecolor=mark["color"], elinewidth=1.2, capsize=2.5)
        if _limit(panel, result, limit, shown, named=False):
            meaning += f" · SLO {style.milliseconds(result.limits[limit])}, dashed"
        panel.set_title(f"{title}, ms")
        panel.set_title(meaning, loc="right", size=9, weight="normal", color=style.GREY)
    style.legend_under_titles(fig, [Line2D([], [], linestyle="", label=name, **mark)
                                    for name, _, mark in MARKS.values()])
    return fig


def _limit(panel, result: SimResult, name: str, shown: list[float], from_zero=True, named=True) -> bool:
    """Scales the axis for what is shown, and draws the limit of the SLO where that is near: whether it is."""
    value = result.limits.get(name)
    near = value is not None and (not shown or value <= 2 * max(shown))
    style.scale(panel, "x", shown + [value] if near else shown, from_zero=from_zero)
    if near:
        style.limit_line(panel, "x", value, f"SLO {style.milliseconds(value)}" if named else "")
    return near


# Name, how far from the middle of the row, and look.
MARKS = {"p50": ("P50", 0.0, {"marker": "s", "color": style.GREY, "markersize": 5}),
         "mean": ("mean", -0.14, {"marker": "o", "color": style.BLUE}),
         "p99": ("P99", 0.14, {"marker": "D", "color": style.RED, "markersize": 5})}


def service(result: SimResult):
    """What a policy made of the machines, a bar per policy."""
    cases = result.at_top
    panels = [PANELS[name] for name in PANELS if name != "goodput" or cases[0].mean("goodput_share") is not None]
    fig, axes = _rows("What was served, and at what cost", subtitle(result, cases), cases, -(-len(panels) // 3), 3)
    for panel in list(axes.flat)[len(panels):]:
        panel.remove()
    for panel, (title, path, factor) in zip(axes.flat, panels):
        values = [factor * (case.mean(*path) or 0) for case in cases]
        halves = [factor * case.half(*path) for case in cases]
        panel.barh(range(len(cases)), values, xerr=halves, height=0.6, color=style.SKY,
                   error_kw={"elinewidth": 1.2, "capsize": 2.5, "ecolor": style.INK})
        most = max(value + half for value, half in zip(values, halves))
        for row, (value, half) in enumerate(zip(values, halves)):
            panel.annotate(style.number(value), (value + half, row), (4, 0), textcoords="offset points",
                           size=9, va="center")
        panel.set_xlim(0, 1.3 * most or 1)
        panel.xaxis.set_major_locator(MaxNLocator(3) if most else FixedLocator([0]))
        panel.set_title(title)
    return fig


PANELS = {
    "goodput": ("Within the SLO, %", ("goodput_share",), 100),
    "throughput": ("Output tokens/s", ("output_throughput",), 1),
    "refused": ("Refused", ("refused",), 1),
    "preemptions": ("Preemptions", ("preemptions",), 1),
    "kv": ("KV use P95, %", ("kv_use_p95",), 100),
    "wasted": ("Wasted work, %", ("wasted_share",), 100),
}


def cdf(result: SimResult):
    """How the latencies of requests are spread, a line per policy."""
    cases = result.at_top
    names = [case.name for case in cases]
    if too_many(names):
        return too_many(names)
    fig, axes = style.figure("Latency of requests: how it is spread", subtitle(result, cases, interval=False), 4.2, 1, 3,
                             legend=legend_lines(names), sharey=True)
    for panel, (metric, limit, title, _) in zip(axes.flat, METRICS):
        shown = []
        for number, case in enumerate(cases):
            values = case.spread(metric)
            if values:
                panel.plot(values, result.shares, gid=f"{metric}-{number}", **look(number))
                shown += values
        _limit(panel, result, limit, shown, from_zero=False)
        if panel.get_xscale() == "log":
            style.log_axis(panel.xaxis, 3)  # decades only: the panels are narrow
        panel.set_ylim(0, 1.02)
        panel.yaxis.set_major_formatter(PercentFormatter(1))
        panel.set_title(title)
        panel.set_xlabel("ms")
    axes[0][0].set_ylabel("share of requests")
    legend(fig, names)
    return fig


def timeline(result: SimResult):
    """KV use and requests without a first token over time, a line per policy: the first seed."""
    cases = result.at_top
    names = [case.name for case in cases]
    if too_many(names):
        return too_many(names)
    fig, axes = style.figure("The cluster over time",
                             f"simulated{at_load(result, cases)} · the run of seed {cases[0].runs[0]['seed']}", 5.6,
                             2, 1, legend=legend_lines(names), sharex=True)
    pool, waiting = axes[0][0], axes[1][0]
    for number, case in enumerate(cases):
        over_time = case.runs[0]["over_time"]
        for panel, key in ((pool, "kv_use"), (waiting, "waiting")):
            values = over_time[key]
            moments = [(i + 0.5) * over_time["every_s"] for i in range(len(values))]
            panel.plot(moments, values, gid=f"{key}-{number}", **{**look(number), "linewidth": 1.3})
    pool.set_ylim(0, 1.02)
    pool.yaxis.set_major_formatter(PercentFormatter(1))
    pool.set_title("Blocks of decode workers in use")
    waiting.set_ylim(0)
    waiting.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    waiting.set_title("Requests without a first token")
    waiting.set_xlabel("seconds since the start")
    waiting.set_xlim(0)
    legend(fig, names)
    return fig


def load(result: SimResult):
    """Each figure against what differs between the files, a line per policy."""
    if result.axis is None:
        return "it needs files that differ in one number, as --rate"
    if too_many(result.names):
        return too_many(result.names)
    with_slo = any(case.mean("goodput_share") is not None for case in result.cases)
    panels = [panel for panel in OVER_LOAD if with_slo or panel[1] != ("goodput_share",)]
    lines = -(-len(panels) // 2)
    runs = max(len(case.runs) for case in result.cases)
    fig, axes = style.figure(f"Policies against {axis_name(result)}",
                             f"simulated · {runs} run{'s' if runs > 1 else ''} at each load"
                             + (", 95 % intervals shaded" if runs > 1 else ""),
                             1.5 + 2.4 * lines, lines, 2, legend=legend_lines(result.names))
    fig.subplots_adjust(left=1.05 / style.WIDTH, wspace=0.4)
    for panel in list(axes.flat)[len(panels):]:
        panel.remove()
    for panel, (title, path, factor, unit) in zip(axes.flat, panels):
        shown = []
        for number, name in enumerate(result.names):
            cases = [case for case in result.along(name) if case.mean(*path) is not None]
            x = [case.at for case in cases]
            y = [factor * case.mean(*path) for case in cases]
            halves = [factor * case.half(*path) for case in cases]
            panel.plot(x, y, marker="o", markersize=4, gid=f"{'-'.join(path)}-{number}", **look(number))
            most = 100 if unit == "%" else float("inf")
            panel.fill_between(x, [max(0, v - h) for v, h in zip(y, halves)],
                               [min(most, v + h) for v, h in zip(y, halves)],
                               color=look(number)["color"], alpha=0.15, linewidth=0)
            shown += y
        if unit == "ms":
            style.scale(panel, "y", shown)
        panel.set_ylim(0 if panel.get_yscale() == "linear" else None, 1.3 * max(shown, default=1) or 1)
        if unit == "%" and max(shown, default=0) > 60:
            panel.set_ylim(0, 104)
        panel.set_title(title)
        panel.set_ylabel(unit)
    for panel in list(axes.flat)[max(0, len(panels) - 2):len(panels)]:
        panel.set_xlabel(axis_name(result))
    legend(fig, result.names)
    return fig


OVER_LOAD = (
    ("End to end, mean", ("e2e_ms", "mean"), 1, "ms"),
    ("End to end, P99", ("e2e_ms", "p99"), 1, "ms"),
    ("TTFT, mean", ("ttft_ms", "mean"), 1, "ms"),
    ("TTFT, P99", ("ttft_ms", "p99"), 1, "ms"),
    ("TPOT, mean", ("tpot_ms", "mean"), 1, "ms"),
    ("TPOT, P99", ("tpot_ms", "p99"), 1, "ms"),
    ("Preemptions", ("preemptions",), 1, "a run"),
    ("KV use, P95", ("kv_use_p95",), 100, "%"),
    ("Wasted work, of tokens fed", ("wasted_share",), 100, "%"),
    ("Requests within the SLO", ("goodput_share",), 100, "%"),
)


def _rows(title, under, cases: list[Case], rows, columns, legend_=0):
    """Panels that share their rows, one for each case, named on the left."""
    panel, between = 0.3 + 0.26 * len(cases), 0.75  # inches
    height = 1.1 + 0.65 + (0.35 if legend_ else 0) + rows * panel + (rows - 1) * between
    fig, axes = style.figure(title, under, height, rows, columns, legend=legend_, sharey=True)
    longest = max(len(case.name) for case in cases)
    fig.subplots_adjust(left=min(0.45, (0.35 + 0.085 * longest) / style.WIDTH), wspace=0.16,
                        bottom=0.55 / height, hspace=between / panel)
    for row in axes:
        row[0].set_yticks(range(len(cases)), [case.name for case in cases])
        row[0].set_ylim(len(cases) - 0.4, -0.6)
    for each in axes.flat:
        each.grid(axis="y", visible=False)
        each.tick_params(axis="y", length=0)
    return fig, axes
