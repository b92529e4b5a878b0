"""Four pictures of ends: the last steps before, sentence ends, how long answers are, temperature."""

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter

from baton_analysis import style
from baton_analysis.eos import drawing
from baton_analysis.eos.gather import SENTENCES, TAIL, Family
from baton_analysis.eos.statistics import Ends, kaplan_meier, survival_quantile

TEMPERATURE_REQUESTS_MIN = 10
LEGEND_COLUMNS = 2  # names of families and what is said of each leave room for no more


def before_the_end(families: list[Family]):
    families = [f for f in families if len(f.tails.items) > 0]
    if not families:
        return "no answer of more than one token ended by itself"
    fig, flat, axes = drawing.panels(
        f"EOS probability on the last {TAIL} steps before answers end",
        "answers that ended by themselves, laid over each other at their ends: median and middle "
        "half",
        [f"{f.label}: {drawing.count(f.tails.offered, 'answer')}"
         for f in families], 2.0, columns=2, sharex=True, sharey=True)
    back = np.arange(1 - TAIL, 1)
    for panel, family in zip(flat, families):
        tails = drawing.clipped(np.array(family.tails.items))
        # A step that only a few answers are long enough for is no picture of the family.
        enough = (~np.isnan(tails)).sum(axis=0) >= max(1, 0.1 * len(tails))
        low, middle, high = band = np.full((3, TAIL), np.nan)
        band[:, enough] = np.nanpercentile(tails[:, enough], (25, 50, 75), axis=0)
        panel.fill_between(back, low, high, color=style.SKY, alpha=0.35, linewidth=0)
        panel.plot(back, middle, color=style.BLUE)
        panel.plot(0, middle[-1], "o", color=style.BLUE, clip_on=False)
        panel.set_xlim(1 - TAIL, 0.5)
    drawing.odds_axis(flat[0], "y",
                      np.concatenate([np.array(f.tails.items).ravel() for f in families]))
    for row in axes:
        row[0].set_ylabel("probability of EOS")
    for column in axes.T:
        lowest = [panel for panel in column if panel.get_visible()][-1]
        lowest.set_xlabel("steps to the end (0 = the draw of EOS)")
        lowest.tick_params(labelbottom=True)
    return fig


def sentence_ends(families: list[Family]):
    families = [f for f in families if _behind_sentences(f) is not None]
    if not families:
        return "no answer that ended by itself has a token that ends a sentence or a line"
    fig, flat, axes = drawing.panels(
        f"EOS probability behind the last {SENTENCES} sentences of answers",
        "answers that ended by themselves: median and middle half of the rows right behind a "
        "sentence or line",
        [f"{f.label}: {drawing.count(len(f.peaks.items), 'answer')}"
         for f in families], 2.0, legend=True, sharex=True, sharey=True)
    back = np.arange(-SENTENCES, 1)
    for panel, family in zip(flat, families):
        inside, behind = np.array(family.peaks.items)[:, 0], _behind_sentences(family)
        if not np.isnan(inside).all():
            low, high = np.nanpercentile(drawing.clipped(inside), (25, 75))
            panel.axhspan(low, high, color=style.GREY, alpha=0.25, linewidth=0)
        low, middle, high = behind
        panel.vlines(back, low, high, color=style.SKY, linewidth=4)
        panel.plot(back[:-1], middle[:-1], "o-", color=style.BLUE, markersize=4)
        panel.plot(0, middle[-1], "D", color=style.ORANGE, clip_on=False)
        panel.set_xlim(-SENTENCES - 0.5, 0.5)
    drawing.odds_axis(flat[0], "y",
                      np.concatenate([np.array(f.peaks.items).ravel() for f in families]))
    for row in axes:
        row[0].set_ylabel("probability of EOS")
    for column in axes.T:
        lowest = [panel for panel in column if panel.get_visible()][-1]
        lowest.set_xlabel("sentences to the end (0 = the draw of EOS)")
        lowest.tick_params(labelbottom=True)
    style.legend_under_titles(fig, [
        Line2D([], [], color=style.BLUE, marker="o", label="behind a sentence"),
        Line2D([], [], color=style.ORANGE, marker="D", linestyle="", label="the end itself"),
        Line2D([], [], color=style.GREY, alpha=0.4, linewidth=8, label="inside of sentences")
    ])
    return fig


def _behind_sentences(family: Family) -> np.ndarray | None:
    """Quartiles behind each of the last sentences and of the end: [3, SENTENCES + 1]."""
    if not family.peaks.items:
        return None
    peaks = drawing.clipped(np.array(family.peaks.items)[:, 1:])
    known = (~np.isnan(peaks)).sum(axis=0)
    if not known[:-1].any():
        return None
    # A sentence that only a few answers have is no picture of the family.
    enough = known >= max(1, 0.1 * len(peaks))
    band = np.full((3, SENTENCES + 1), np.nan)
    band[:, enough] = np.nanpercentile(peaks[:, enough], (25, 50, 75), axis=0)
    return band


def survival(families: list[Family]):
    fig, axes = style.figure("How many answers are still going on after so many tokens",
                             "Kaplan–Meier estimate; a tick: an answer that was cut off there",
                             4.6, legend=-(-len(families) // LEGEND_COLUMNS))
    panel = axes[0, 0]
    handles = []
    for place, family in enumerate(families):
        color, line = _series(place)
        _curve(panel, family.ends, color, line)
        handles.append(
            Line2D([], [], color=color, linestyle=line,
                   label=f"{family.label} ({_median(family.ends)})"))
    _survival_axes(panel)
    style.legend_under_titles(fig, handles, columns=LEGEND_COLUMNS)
    return fig


def temperature(families: list[Family]):
    """Families that were asked at two temperatures or more."""
    compared = [(family, known) for family in families
                if len(known := compared_temperatures(family)) > 1]
    if not compared:
        return ("no prompt family has two temperatures with "
                f"{TEMPERATURE_REQUESTS_MIN} requests each, as far as summaries tell")
    everywhere = sorted({t for _, known in compared for t in known})
    fig, flat, axes = drawing.panels("Length of answers at different temperatures",
                                     "Kaplan–Meier estimate: share that is still going on",
                                     [family.label for family, _ in compared], 2.9, legend=True)
    for panel, (family, known) in zip(flat, compared):
        for at, found in known.items():
            _curve(panel, found.ends, *_series(everywhere.index(at)))
        _survival_axes(panel)
    style.legend_under_titles(fig, [
        Line2D([], [], color=_series(i)[0], linestyle=_series(i)[1], label=f"temperature {at:g}")
        for i, at in enumerate(everywhere)
    ])
    return fig


def compared_temperatures(family: Family) -> dict:
    return {
        at: family.temperatures[at]
        for at in sorted(t for t in family.temperatures if t is not None)
        if family.temperatures[at].ends.count >= TEMPERATURE_REQUESTS_MIN
    }


def _series(place: int):
    colors = style.SERIES
    return colors[place % len(colors)], "-" if place < len(colors) else "--"


def _median(ends: Ends) -> str:
    middle = survival_quantile(kaplan_meier(ends), 0.5)
    return f"half ended by {middle:,}" if middle is not None else "fewer than half ended"


def _curve(panel, ends: Ends, color, line):
    alive = kaplan_meier(ends)
    changes = np.flatnonzero(np.diff(alive.shares, prepend=1.0))
    steps = alive.lengths[np.unique(np.concatenate(([0], changes, [len(alive.lengths) - 1])))]
    panel.plot(steps, alive.at(steps), color=color, linestyle=line, drawstyle="steps-post")
    cut = np.array(sorted(ends.censored))
    if len(cut):
        panel.plot(cut, alive.at(cut), "|", color=color, markersize=8, markeredgewidth=1.4)


def _survival_axes(panel):
    panel.set_ylim(0, 1.02)
    panel.set_xlim(0, None)
    panel.yaxis.set_major_formatter(PercentFormatter(1))
    panel.set_xlabel("tokens of the answer")
    panel.set_ylabel("share still going on")
