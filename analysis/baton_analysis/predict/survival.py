"""M0: how long answers of a class last, whatever their rows say (Kaplan-Meier, in steps)."""

from collections import Counter

import numpy as np

from baton_analysis.predict import bins

EXACT_STEPS = 64  # each with a hazard of its own; then steps of a twelfth, as ends get rare
GROWTH = 1.08
PSEUDO_STEPS = 1.0  # of the class's mean hazard, added to each: none is 0 for want of answers
HAZARD_MIN = 1e-9
DEFAULT = "all"


def fit(lengths: np.ndarray, natural: np.ndarray, classes: list[str] = ()) -> dict:
    """A model of kind survival: of each class (one per answer, if any), and as the default of all."""
    found = {DEFAULT: hazards(lengths, natural)}
    names = np.array(classes)
    for name in sorted(set(classes)):
        found[name] = hazards(lengths[names == name], natural[names == name])
    return {"kind": "survival", "classes": found, "default": DEFAULT}


def hazards(lengths: np.ndarray, natural: np.ndarray) -> dict:
    """A cut answer of c tokens was at risk at its steps 1..c, and ended at none of them."""
    longest = int(lengths.max())
    ends = grid(longest)
    died, steps_at_risk = np.zeros((2, len(ends)))
    starts = np.concatenate(([0], ends[:-1]))
    for (length, ended), count in Counter(zip(lengths.tolist(), natural.tolist())).items():
        steps_at_risk += count * np.clip(length - starts, 0, ends - starts)
        if ended:
            died[np.searchsorted(ends, length)] += count
    mean = died.sum() / steps_at_risk.sum()
    hazard = (died + PSEUDO_STEPS * mean) / (steps_at_risk + PSEUDO_STEPS)
    return {"steps": ends.tolist(), "hazard": np.clip(hazard, HAZARD_MIN, 1).tolist()}


def grid(longest: int) -> np.ndarray:
    ends = list(range(1, min(longest, EXACT_STEPS) + 1))
    while ends[-1] < longest:
        ends.append(max(ends[-1] + 1, round(ends[-1] * GROWTH)))
    return np.array(ends)


def logits(model: dict, steps: np.ndarray, classes: list[str], starts: np.ndarray) -> np.ndarray:
    """Of rows after step `steps` whose answers begin at rows `starts`: [rows, bins.COUNT]."""
    table = np.empty((len(steps), bins.COUNT))
    for number, name in enumerate(classes):
        of = slice(starts[number], starts[number + 1])
        entry = model["classes"].get(name) or model["classes"][model["default"]]
        table[of] = class_logits(entry, steps[of])
    return table


def class_logits(entry: dict, steps: np.ndarray) -> np.ndarray:
    now = log_survival(entry, steps)[:, None]
    edges = np.concatenate(([0], bins.UPPER))
    at = log_survival(entry, steps[:, None] + edges) - now
    # Of those who reach a bin, the share that ends in it.
    hazard = np.clip(-np.expm1(np.diff(at, axis=1)), HAZARD_MIN, 1 - HAZARD_MIN)
    return np.log(hazard) - np.log1p(-hazard)


def mean_logits(entry: dict, steps: np.ndarray) -> np.ndarray:
    """Of each bin, over the answers behind these steps that come so far: [bins.COUNT]."""
    chances = bins.within(class_logits(entry, steps))
    ends = np.diff(chances, axis=1, prepend=0).sum(axis=0)
    reach = 1 - np.column_stack([np.zeros(len(steps)), chances[:, :-1]])
    hazard = np.clip(ends / np.maximum(reach.sum(axis=0), HAZARD_MIN), HAZARD_MIN, 1 - HAZARD_MIN)
    return np.log(hazard) - np.log1p(-hazard)


def log_survival(entry: dict, steps: np.ndarray) -> np.ndarray:
    """ln P(more than `steps` tokens)."""
    ends = np.array(entry["steps"], dtype=float)
    # A certain end keeps a survival above 0, so that what lies beyond it has a hazard.
    step = np.log1p(-np.minimum(entry["hazard"], 1 - HAZARD_MIN))
    sums = np.concatenate(([0], np.cumsum(step * np.diff(ends, prepend=0))))
    place = np.minimum(np.searchsorted(ends, steps, side="left"), len(ends) - 1)
    before = np.concatenate(([0], ends))[place]
    return sums[place] + step[place] * (steps - before)
