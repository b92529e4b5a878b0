"""Two pictures that judge: is the probability right, and which feature foretells an end."""

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedFormatter, FixedLocator

from baton_analysis import style
from baton_analysis.eos import drawing
from baton_analysis.eos.gather import Gathered
from baton_analysis.eos.ranking import HORIZONS, Ranking

KINDS = {
    "eos_prob": ("raw probability (eos_prob)", style.BLUE, "o"),
    "eos_prob_sampling": ("after sampling rules (eos_prob_sampling)", style.ORANGE, "s")
}
LEAST = 1e-6
COLUMNS_MAX = 7  # of families, all together among them, that are still legible side by side
NAME_MAX = 10  # characters over such a column


def reliability(gathered: Gathered):
    there = [kind for kind in KINDS if gathered.reliability[kind][0].count.sum() > 0]
    if not there:
        return "the log has no EOS probabilities"
    fig, axes = style.figure(
        "Does an announced chance of ending come true?",
        "each mark: all steps with about this probability; bar: 95 % interval; "
        "on the dashed line it is exactly right", 4.7, 1, 2, legend=True)
    equal, decades = axes[0]
    handles = []
    for kind in there:
        name, color, marker = KINDS[kind]
        in_equal, in_decades = gathered.reliability[kind]
        _points(equal, in_equal, color, marker, 0)
        _points(decades, in_decades, color, marker, LEAST)
        handles.append(
            Line2D([], [], color=color, marker=marker, linestyle="",
                   label=f"{name}: ECE {in_equal.expected_calibration_error():.2g}"))
    for panel, low, title in ((equal, 0, "linear"), (decades, LEAST,
                                                     "logarithmic; ▽ none ended: at most")):
        panel.plot([low, 1], [low, 1], linestyle="--", color=style.GREY, linewidth=1.2)
        panel.set_title(title)
        panel.set_xlabel("announced probability of ending here")
    equal.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), ylabel="share of these steps that ended")
    for axis in (equal.xaxis, equal.yaxis):
        axis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    decades.set(xscale="log", yscale="log", xlim=(LEAST, 1.3), ylim=(LEAST, 1.3))
    for axis, every in ((decades.xaxis, 2), (decades.yaxis, 1)):
        places = [10.0**exponent for exponent in range(-6, 1, every)]
        axis.set_major_locator(FixedLocator(places))
        axis.set_major_formatter(FixedFormatter([drawing.percent(place) for place in places]))
    style.legend_under_titles(fig, handles, columns=2)
    return fig


def _points(panel, reliability_, color, marker, least):
    announced, share, low, high, seen = reliability_.points()
    inside = announced >= least
    marked = inside & (seen | (least == 0))
    panel.vlines(announced[marked], np.maximum(low[marked], least), high[marked], color=color,
                 linewidth=1.3, alpha=0.6)
    panel.plot(announced[marked], share[marked], marker, color=color, markersize=5, linestyle="")
    # A logarithmic axis has no place for 0: what is known is how large the share may be at most.
    never = inside & ~marked
    panel.plot(announced[never], high[never], "v", color=color, markerfacecolor="white",
               markersize=5, linestyle="")


def auroc(rankings: list[tuple[str, Ranking | None]]):
    """A table in colours: features by horizons, side by side for each family."""
    rankings = [(name, ranking) for name, ranking in rankings if ranking and any(ranking.ends)]
    rankings = rankings[:COLUMNS_MAX]
    if not rankings:
        return "no row is known to come shortly before an end"
    labels = [
        label for label in rankings[0][1].scores
        if any(s is not None for _, r in rankings for s in r.scores[label])
    ]
    fig, axes = style.figure(
        "What foretells that an answer ends within the next k tokens?",
        "AUROC of each feature alone. 0.5: tells nothing; 1 (blue): the higher, the sooner; "
        "0 (red): the lower, the sooner", 1.7 + 0.27 * len(labels), 1, len(rankings))
    height = fig.get_figheight()
    fig.subplots_adjust(left=2.75 / style.WIDTH, right=1 - 0.15 / style.WIDTH, bottom=0.4 / height,
                        top=1 - 1.15 / height, wspace=0.08)
    size = 8.5 if len(rankings) < 5 else 6.5
    for place, (panel, (name, ranking)) in enumerate(zip(axes[0], rankings)):
        cells = np.array([[np.nan if s is None else s for s in ranking.scores[label]]
                          for label in labels])
        panel.imshow(cells, cmap="RdBu", vmin=0, vmax=1, aspect="auto", alpha=0.75)
        for (row, column), value in np.ndenumerate(cells):
            panel.text(column, row, "–" if np.isnan(value) else f"{value:.2f}".lstrip("0"),
                       size=size, ha="center", va="center",
                       color="white" if abs(value - 0.5) > 0.4 else style.INK)
        panel.set_title(name, size=10 if len(rankings) < 5 else 8)
        panel.set_xticks(range(len(HORIZONS)),
                         [f"k={k}" if len(rankings) < 5 else str(k) for k in HORIZONS],
                         size=9 if len(rankings) < 5 else 8)
        panel.set_yticks(range(len(labels)), labels if place == 0 else [])
        panel.tick_params(length=0)
        panel.grid(False)
        for spine in panel.spines.values():
            spine.set_visible(False)
    if len(rankings) >= 5:
        fig.text(2.7 / style.WIDTH, 0.2 / height, "k =", ha="right", va="center", size=9)
    return fig
