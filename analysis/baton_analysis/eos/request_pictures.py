"""Four pictures of whole requests, of all together and of each prompt family:
typical courses, the last value, slope against length, mean against maximum."""

import numpy as np
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from baton_analysis import style
from baton_analysis.eos import drawing
from baton_analysis.eos.features import log_odds
from baton_analysis.eos.gather import Curve, Figures
from baton_analysis.eos.statistics import Ends

NO_VALUES = "the log has no EOS probabilities"
# Shares of the answers that are shorter than the typical ones shown.
TYPICAL = (0.25, 0.5, 0.9)
SLOPE_LINEAR = 0.01


def eos_over_steps(groups, by_family):
    """`groups`: pairs of name and families."""
    shown = [(name, curve) for name, families in groups
             for curve in _typical(families, (0.5,) if by_family else TYPICAL, not by_family)]
    if not shown:
        return NO_VALUES
    names = [
        f"{name}: {_described(curve)}" if by_family else _described(curve) for name, curve in shown
    ]
    fig, flat, axes = drawing.panels(
        "EOS probability at each step of typical answers" +
        (", by prompt family" if by_family else ""),
        "for each family an answer of middle length" if by_family else
        "answers that 25, 50 and 90 % of the ended ones are shorter than, and one that was cut off",
        names, 1.75, legend=True, columns=1 + by_family, sharey=True)
    for panel, (_, curve) in zip(flat, shown):
        color = drawing.ENDED if curve.natural else drawing.CUT
        values = drawing.clipped(curve.odds)
        # A value between two missing ones has no line to be seen by.
        panel.plot(curve.steps, values, color=color, linewidth=1.2,
                   marker="." if np.isnan(values).any() else "")
        panel.plot(curve.steps[-1:], values[-1:], "o", color=color, clip_on=False,
                   markerfacecolor=color if curve.natural else "white")
        panel.set_xlim(0, None)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    drawing.odds_axis(flat[0], "y", np.concatenate([curve.odds for _, curve in shown]))
    _outer_labels(axes, "step (tokens of the answer)", "probability of EOS")
    drawing.ends_legend(fig, line="-")
    return fig


def _typical(families, shares, with_cut) -> list[Curve]:
    """Of the sampled answers those whose lengths are nearest to the wanted ones."""
    curves = [curve for family in families for curve in family.curves.items]
    ended = [c for c in curves if c.natural]
    cut = sorted((c for c in curves if not c.natural), key=lambda c: c.steps[-1])
    ends = sum((family.ends for family in families), start=Ends())
    # A picture of answers that were all cut off is better than none.
    chosen = []
    for share in shares if ended else ():
        wanted = ends.natural_quantile(share)
        chosen.append(min(ended, key=lambda curve: abs(curve.steps[-1] - wanted)))
    if with_cut or not ended:
        chosen += cut[-1:]
    return list({curve.request_id: curve for curve in chosen}.values())


def _described(curve: Curve) -> str:
    return drawing.count(int(curve.steps[-1]), "token") + ("" if curve.natural else ", cut off")


def final_eos_hist(groups, by_family):
    groups = [(name, families) for name, families in groups if _figures(families)]
    if not groups:
        return NO_VALUES
    fig, flat, axes = drawing.panels(
        "EOS probability at the last token of answers" +
        (", by prompt family" if by_family else ""),
        "log-odds scale: as much room for 99 % to 99.99 % as for 0.01 % to 1 %",
        [name for name, _ in groups], 2.2 if by_family else 3.6, legend=True, sharex=True)
    everything = np.concatenate([_finals(_figures(families)) for _, families in groups])
    edges = np.linspace(
        drawing.clipped(everything).min() - 0.5,
        drawing.clipped(everything).max() + 0.5, 36)
    for panel, (_, families) in zip(flat, groups):
        drawn = _finals_and_shares(families)
        panel.hist([values for values, _ in drawn], edges, weights=[shares for _, shares in drawn],
                   stacked=True, color=[drawing.ENDED, drawing.CUT])
    drawing.odds_axis(flat[0], "x", everything, names_max=4 if len(groups) > 1 else 9)
    _outer_labels(axes, "probability of EOS, raw (temperature 1)", "% of answers")
    _patches(fig)
    return fig


def eos_slope_vs_length(groups, by_family):
    title = "Does the EOS probability rise during an answer?"
    return _scatter(
        groups, by_family, "slope", title,
        "slope of ln p(EOS) over all rows before the end; linear up to 0.01, logarithmic beyond",
        "length (tokens)", "slope per token", _slopes)


def mean_vs_max_eos(groups, by_family):
    title = "Mean and peak of the EOS probability before the end"
    return _scatter(groups, by_family, "mean", title, "the row of the end itself is left out",
                    "mean, as exp(mean ln p)", "highest at one step", _means)


def _slopes(panels, everything):
    for panel, part in panels:
        for natural in (True, False):
            some = [f for f in part if f.natural == natural]
            _dots(panel, [f.length for f in some], [f.slope for f in some], natural)
        panel.axhline(0, color=style.GREY, linewidth=1)
        style.scale(panel, "x", [f.length for f in everything], from_zero=False)
    # Long answers have small slopes, short ones large: linear around 0, logarithmic beyond.
    panels[0][0].set_yscale("symlog", linthresh=SLOPE_LINEAR)
    largest = 1.6 * max(SLOPE_LINEAR, *(abs(f.slope) for f in everything))
    panels[0][0].set_ylim(-largest, largest)
    panels[0][0].yaxis.set_major_formatter(lambda value, _: f"{value:g}")


def _means(panels, everything):
    for panel, part in panels:
        for natural in (True, False):
            some = [f for f in part if f.natural == natural]
            _dots(panel, drawing.clipped(log_odds(np.array([f.mean for f in some]))),
                  drawing.clipped(log_odds(np.array([f.peak for f in some]))), natural)
    drawing.odds_axis(panels[0][0], "x", log_odds(np.array([f.mean for f in everything])),
                      names_max=5, through_half=False)
    drawing.odds_axis(panels[0][0], "y", log_odds(np.array([f.peak for f in everything])))


def _scatter(groups, by_family, needed, title, subtitle, x, y, draw):
    usable = [(name, [f for f in _figures(families) if not np.isnan(getattr(f, needed))])
              for name, families in groups]
    usable = [(name, part) for name, part in usable if part]
    if not usable:
        return "no request has enough rows with EOS probabilities before its end"
    fig, flat, axes = drawing.panels(title, ("by prompt family; " if by_family else "") + subtitle,
                                     [name for name, _ in usable], 2.1 if by_family else 4.2,
                                     legend=True, sharex=True, sharey=True)
    draw([(panel, part) for panel, (_, part) in zip(flat, usable)],
         [f for _, part in usable for f in part])
    _outer_labels(axes, x, y)
    drawing.ends_legend(fig)
    return fig


def _dots(panel, x, y, natural):
    if len(x):
        panel.plot(x, y, "o", markersize=3.5, markeredgewidth=0.8, alpha=0.5 if natural else 0.9,
                   color=drawing.ENDED if natural else drawing.CUT,
                   markerfacecolor=drawing.ENDED if natural else "white", linestyle="")


def _figures(families) -> list[Figures]:
    return [figures for family in families for figures in family.figures.items]


def _finals(part) -> np.ndarray:
    values = log_odds(np.array([f.final for f in part]))
    return values[~np.isnan(values)]


def _finals_and_shares(families):
    """Last values of the ended and of the cut answers, and how many percent of all each stands for:
    a family of which only a sample is there counts with all its requests."""
    total = sum(family.figures.offered for family in families)
    drawn = []
    for natural in (True, False):
        values = [(f.final, 100 * family.figures.offered / len(family.figures.items) / total)
                  for family in families for f in family.figures.items
                  if f.natural == natural and not np.isnan(f.final)]
        finals, shares = np.array(values).reshape(-1, 2).T
        drawn.append((drawing.clipped(log_odds(finals)), shares))
    return drawn


def _patches(fig):
    style.legend_under_titles(fig, [
        Patch(color=drawing.ENDED, label=drawing.ENDED_NAME),
        Patch(color=drawing.CUT, label=drawing.CUT_NAME)
    ])


def _outer_labels(axes, x, y):
    """Names on the left and lowest panels; of a column whose lowest is empty, the one above it."""
    for row in axes:
        row[0].set_ylabel(y)
    for column in axes.T:
        lowest = [panel for panel in column if panel.get_visible()][-1]
        lowest.set_xlabel(x)
        lowest.tick_params(labelbottom=True)
