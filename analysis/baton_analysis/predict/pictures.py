"""Pictures of the study."""

import os

import matplotlib

from baton_analysis import style
from baton_analysis.predict.bins import HORIZONS

PICTURES = (("auroc", "How well each model ranks rows by whether the end is near"),
            ("remaining", "Error of the remaining tokens, against survival"),
            ("calibration", "Calibration error at each horizon"))
FAMILIES = ("story", "answer", "determined")


def draw(found: dict, folder: str):
    os.makedirs(folder, exist_ok=True)
    with matplotlib.rc_context(style.RC):
        for name, make in (("auroc", _auroc), ("remaining", _remaining), ("calibration",
                                                                          _calibration)):
            make(found).savefig(os.path.join(folder, f"{name}.svg"), metadata={"Date": None})


def _families(found):
    there = next(iter(found["models"].values()))["arms"][found["data"]["main_arm"]]
    return [family for family in FAMILIES if family in there] or [next(iter(there))]


def _judged(found, name, family):
    return found["models"][name]["arms"][found["data"]["main_arm"]][family]


def _colours(names):
    colours = matplotlib.colormaps["tab10"].colors + matplotlib.colormaps["Dark2"].colors
    return dict(zip(names, colours))


def _curves(found, title, subtitle, figure, label, skip=()):
    families = _families(found)
    names = [name for name in found["models"] if name not in skip]
    colours = _colours(found["models"])
    fig, axes = style.figure(title, subtitle, 4.6, columns=len(families), legend=4)
    handles = {}
    for family, axis in zip(families, axes[0]):
        for name in names:
            at = [_judged(found, name, family)["horizons"][str(k)].get(figure) for k in HORIZONS]
            points = [(k, f["value"]) for k, f in zip(HORIZONS, at) if f and f["value"] is not None]
            if points:
                handles[name], = axis.plot(*zip(*points), color=colours[name], marker="o",
                                           markersize=4, label=name, linewidth=1.5)
        axis.set_xscale("log")
        style.log_axis(axis.xaxis, 2.4)
        axis.set_xticks(HORIZONS)
        axis.set_xlabel("tokens to come")
        axis.set_title(family)
    axes[0][0].set_ylabel(label)
    style.legend_under_titles(fig, list(handles.values()), columns=4)
    return fig, axes


def _auroc(found):
    fig, axes = _curves(found, "Who foretells that an answer ends soon?",
                        "AUROC of P(end within k tokens) on answers to prompts that no model saw; 0.5 is "
                        "chance", "auroc", "AUROC")  # yapf: disable
    ceilings = next(iter(found["models"].values()))["ceiling"]
    for family, axis in zip(_families(found), axes[0]):
        points = [(int(k), at["auroc_ceiling"]["value"]) for k, at in ceilings.get(family, {}).items()
                  if at["auroc_ceiling"]["value"] is not None]  # yapf: disable
        if points:
            axis.plot(*zip(*points), color=style.INK, linestyle="--", linewidth=1.2)
            axis.annotate("ceiling", points[-1], (2, 4), textcoords="offset points", size=8)
        axis.set_ylim(0.45, 1.02)
    return fig


def _calibration(found):
    fig, axes = _curves(found, "Do announced ends come true?",
                        "Expected calibration error (15 bins) of P(end within k tokens); every row weighs "
                        "the same", "ece", "ECE", skip=[list(found["models"])[1]])  # yapf: disable
    for axis in axes[0]:
        axis.set_ylim(0, None)
    return fig


def _remaining(found):
    families = _families(found)
    names = [name for place, name in enumerate(found["models"]) if place != 1]
    fig, axes = style.figure("How far off are the remaining tokens?",
                             "Mean absolute error of the median, as a share of that of survival per "
                             "family (line at 1); bars are 95 % intervals", 1.6 + 0.28 * len(names),
                             columns=len(families), sharey=True)  # yapf: disable
    fig.subplots_adjust(left=0.24)
    for family, axis in zip(families, axes[0]):
        for place, name in enumerate(names):
            figure = _judged(found, name, family)["remaining"].get("mae_against_m0")
            if not figure or figure["value"] is None:
                continue
            value = figure["value"]
            low, high = figure["low"] or value, figure["high"] or value
            axis.errorbar(value, place, xerr=[[max(0, value - low)], [max(0, high - value)]],
                          fmt="o", color=style.INK, markersize=5)
        axis.axvline(1, color=style.RED, linewidth=1)
        axis.set_title(family)
        axis.set_xlabel("MAE / M0")
    axes[0][0].set_yticks(range(len(names)), names)
    axes[0][0].invert_yaxis()
    return fig
