"""A picture of each setting: every column's mean and P99 of end to end beside those of fcfs, at every load."""

import math
import os

import matplotlib

from baton_analysis import style
from baton_analysis.scheduling import figures, pages

PANELS = (("e2e_ms.mean", "mean"), ("e2e_ms.p99", "P99"))


def draw(found: dict, folder: str) -> list[str]:
    paths = []
    with matplotlib.rc_context(style.RC):
        for setting in found["settings"]:
            paths.append(os.path.join(folder, setting["name"] + ".svg"))
            _picture(setting).savefig(paths[-1], metadata={"Date": None})
    return paths


def _picture(setting: dict):
    loads = setting["loads"]
    columns = [column for column in loads[0]["columns"] if column["policy"] != "fcfs"]
    clip = _clip(setting)
    fig, axes = style.figure(
        setting["title"], "End-to-end latency against fcfs, less is better; bars are 95 % intervals over seeds; "
        f"worse by more than {clip:.0%} at the edge", 1.9 + 0.44 * len(columns), columns=2, sharey=True,
        legend=1)  # yapf: disable
    fig.subplots_adjust(left=0.32)
    handles = []
    for (figure, title), axis in zip(PANELS, axes[0]):
        handles = [_points(axis, setting, number, figure, clip) for number in range(len(loads))]
        axis.axvline(0, color=style.INK, linewidth=1)
        axis.set_title(title)
        axis.set_xlabel("difference, %")
        axis.set_xlim(-108 * clip, 108 * clip)
    axes[0][0].set_yticks(range(len(columns)), [pages.label(column) for column in columns])
    axes[0][0].set_ylim(len(columns) - 0.4, -0.6)
    style.legend_under_titles(fig, handles)
    return fig


def _clip(setting: dict) -> float:
    """So much that every served policy is within it, from a tenth to the whole: baselines may be far off."""
    most = 0.1
    for load in setting["loads"]:
        for column in load["columns"]:
            for figure, _ in PANELS if column["served"] else ():
                mean, half = figures.relative(column["figures"][figure], pages.fcfs(load)[figure])
                most = max(most, abs(mean) + half)
    return min(1.0, math.ceil(10 * most) / 10)


def _points(axis, setting: dict, number: int, figure: str, clip: float):
    load = setting["loads"][number]
    colour = style.SERIES[number % len(style.SERIES)]
    base = pages.fcfs(load)[figure]
    shift = 0.27 * (number - (len(setting["loads"]) - 1) / 2)
    label = f"{load['load']:.0%} of capacity"
    handle = None
    columns = [column for column in load["columns"] if column["policy"] != "fcfs"]
    for place, column in enumerate(columns):
        mean, half = figures.relative(column["figures"][figure], base)
        if mean > clip:
            axis.annotate(pages.factor(mean), (104 * clip, place + shift), size=7, color=colour, ha="right",
                          va="center")
            handle = handle or axis.plot([], [], "o", color=colour, markersize=4, label=label)[0]
            continue
        handle = axis.errorbar(100 * mean, place + shift, xerr=100 * half, fmt="o", color=colour, markersize=4,
                               linewidth=1.3, label=label)
    return handle
