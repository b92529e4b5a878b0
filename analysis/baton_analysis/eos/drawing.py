"""What the pictures share: axes of probabilities by their odds, panels, colours of ends."""

import math

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedFormatter, FixedLocator

from baton_analysis import style

ENDED, CUT = style.BLUE, style.RED
ENDED_NAME, CUT_NAME = "ended by itself (EOS)", "cut off before"

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def percent(probability: float) -> str:
    """As people read it: 0.01 %, and powers of ten below that."""
    if probability >= 0.99e-4:
        return f"{100 * probability:.6g} %"
    return "10" + f"{math.log10(probability):.0f}".translate(_RAISED)


# Probabilities that an axis names; between them it is linear in ln(p / (1 - p)).
_NAMED = (1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 0.01, 0.5, 0.99, 0.9999)
ODDS_MIN, ODDS_MAX = -30.0, 12.0


def odds(probability: float) -> float:
    return math.log(probability / (1 - probability))


def odds_axis(axes, which: str, values, names_max: int = 9, through_half: bool = True):
    """An axis of log-odds that reads as probability, as wide as the values are; with `through_half`
    at least to 50 %."""
    values = np.asarray(values, dtype=float)
    values = np.clip(values[~np.isnan(values)], ODDS_MIN, ODDS_MAX)
    low, high = (values.min(), values.max()) if len(values) else (odds(1e-6), odds(0.99))
    low, high = low - 1, high + 1
    if through_half:
        low, high = min(low, odds(1e-6)), max(high, odds(0.5) + 1)
    shown = [p for p in _NAMED if low <= odds(p) <= high]
    if len(shown) < 3:
        shown = [p for p in (10.0**e for e in range(-12, -1)) if low <= odds(p) <= high]
    shown = shown[::-(-len(shown) // names_max) or 1]
    axis = getattr(axes, f"{which}axis")
    axis.set_major_locator(FixedLocator([odds(p) for p in shown]))
    axis.set_major_formatter(FixedFormatter([percent(p) for p in shown]))
    getattr(axes, f"set_{which}lim")(low, high)


def clipped(values) -> np.ndarray:
    return np.clip(np.asarray(values, dtype=float), ODDS_MIN, ODDS_MAX)


def panels(title, subtitle, names, height, legend=False, columns=2, **options):
    """A panel for each name. Returns the figure, these panels, and all axes [rows][columns]."""
    columns = min(columns, len(names))
    rows = -(-len(names) // columns)
    fig, axes = style.figure(title, subtitle, 1.3 + height * rows, rows, columns, legend=legend,
                             **options)
    fig.subplots_adjust(left=1.1 / style.WIDTH, hspace=0.68 / height)
    flat = list(axes.flat)
    for panel in flat[len(names):]:
        panel.set_visible(False)
    for panel, name in zip(flat, names):
        if len(names) > 1:
            panel.set_title(name)
    return fig, flat[:len(names)], axes


def ends_legend(fig, marker="o", line=""):
    style.legend_under_titles(fig, [
        Line2D([], [], color=ENDED, marker=marker, linestyle=line, label=ENDED_NAME),
        Line2D([], [], color=CUT, marker=marker, linestyle=line, markerfacecolor="white",
               label=CUT_NAME)
    ])


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
