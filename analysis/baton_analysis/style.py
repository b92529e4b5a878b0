"""The look of every picture: one place for sizes, colours and the shape of titles and axes."""

import textwrap
from math import log10

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

matplotlib.use("Agg")

# Okabe and Ito's palette, which colour-blind readers can tell apart.
BLUE = "#0072B2"
SKY = "#56B4E9"
GREEN = "#009E73"
ORANGE = "#E69F00"
RED = "#D55E00"
PURPLE = "#CC79A7"
INK = "#222222"
GREY = "#767676"
PALE = "#E4E4E4"
SERIES = (BLUE, ORANGE, GREEN, PURPLE, SKY, RED)

WIDTH = 8.0  # inches; 800 pixels at the DPI below
DPI = 100
TITLE_CHARACTERS = 72  # of a line that has room in WIDTH
TITLE_LINE = 0.24  # inches
LEGEND_LINE = 0.2

RC = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "grid.color": PALE,
    "grid.linewidth": 0.8,
    "lines.linewidth": 1.8,
    "lines.markersize": 6,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "text.color": INK,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "svg.fonttype": "none",  # text stays text: it can be searched and read aloud
    "svg.hashsalt": "baton",  # the same data give the same file
}


def figure(title, subtitle, height, rows=1, columns=1, legend=0, **options):
    """A figure and its axes [rows][columns]; `legend`: how many lines of one have room under the titles."""
    lines = textwrap.wrap(title, TITLE_CHARACTERS)
    more = TITLE_LINE * (len(lines) - 1)
    legend_height = 0.12 + LEGEND_LINE * legend if legend else 0
    height += more + LEGEND_LINE * max(0, legend - 1)
    fig = Figure(figsize=(WIDTH, height), dpi=DPI)
    top = 0.95 + more + legend_height
    axes = fig.subplots(rows, columns, squeeze=False, **options)
    fig.subplots_adjust(left=0.85 / WIDTH, right=1 - 0.25 / WIDTH, bottom=0.58 / height,
                        top=1 - top / height, hspace=0.42, wspace=0.28)
    for number, line in enumerate(lines):
        fig.text(0.2 / WIDTH, 1 - (0.16 + TITLE_LINE * number) / height, line, size=13, weight="bold",
                 va="top")
    fig.text(0.2 / WIDTH, 1 - (0.43 + more) / height, subtitle, size=9, color=GREY, va="top")
    fig.legend_top = 0.72 + more
    return fig, axes


def legend_under_titles(fig, handles, columns=6):
    names = [handle.get_label() for handle in handles]
    # matplotlib leaves out what begins with "_", so the names are set afterwards.
    for number, handle in enumerate(handles):
        handle.set_label(str(number))
    legend = fig.legend(
        handles=handles, loc="upper left", ncol=columns, columnspacing=1.4, handletextpad=0.5,
        handlelength=1.6, borderaxespad=0,
        bbox_to_anchor=(0.2 / WIDTH, 1 - fig.legend_top / fig.get_figheight()))
    for text, name in zip(legend.get_texts(), names):
        text.set_text(name)


def _plain(value, _):
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"


def log_axis(axis, decades):
    """Plain numbers: decades, with 2 and 5 in between where there is room."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if decades < 2.6 else (1,), numticks=12))
    axis.set_major_formatter(FuncFormatter(_plain))
    axis.set_minor_formatter(NullFormatter())


def name_log_axes(fig):
    """Says at each axis that is logarithmic that it is: panels of one picture may differ."""
    for axes in fig.axes:
        for which in "xy":
            label = getattr(axes, f"get_{which}label")()
            if getattr(axes, f"get_{which}scale")() == "log":
                getattr(axes, f"set_{which}label")(f"{label} (log scale)")


def scale(axes, which, values, wide=20, from_zero=True):
    """Logarithmic where the positive values span more than `wide`, else linear."""
    positive = [value for value in values if value > 0]
    if positive and max(positive) > wide * min(positive):
        getattr(axes, f"set_{which}scale")("log")
        log_axis(getattr(axes, f"{which}axis"), log10(max(positive) / min(positive)))
        spread = (max(positive) / min(positive)) ** 0.06
        getattr(axes, f"set_{which}lim")(min(positive) / spread, max(positive) * spread)
    else:
        low, high = (min(positive), max(positive)) if positive else (0, 1)
        margin = 0.08 * (high if from_zero else high - low or high)
        getattr(axes, f"set_{which}lim")(0 if from_zero else max(0, low - margin), high + margin)


def limit_line(axes, which, value, text):
    """A limit of the SLO, named on the line. `which`: the axis that the limit is a value of."""
    if which == "y":
        axes.axhline(value, color=RED, linestyle="--", linewidth=1.3)
        axes.annotate(text, (0, value), (4, 3), xycoords=("axes fraction", "data"),
                      textcoords="offset points", color=RED, size=9, va="bottom")
    else:
        axes.axvline(value, color=RED, linestyle="--", linewidth=1.3)
        axes.annotate(text, (value, 0), (3, 4), xycoords=("data", "axes fraction"),
                      textcoords="offset points", color=RED, size=9, va="bottom", rotation=90,
                      bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.5})


def number(value):
    """Three significant digits, without an exponent."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def milliseconds(value):
    return f"{number(value)} ms" if value < 10000 else f"{number(value / 1000)} s"
