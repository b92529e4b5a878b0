"""How well each feature alone tells rows shortly before an end from the others."""

from dataclasses import dataclass

import numpy as np

from baton_analysis.eos.features import NAMES
from baton_analysis.eos.gather import CENSORED, FAMILY, REMAINING, ROOM, STEP, Gathered
from baton_analysis.eos.statistics import auroc, ends_within, kaplan_meier, known_ends

HORIZONS = (1, 4, 16)
SURVIVAL = "length alone, by survival"
# A feature that fewer rows have says something of these few, not of the family.
SHARE_MIN = 0.1


@dataclass
class Ranking:
    """AUROC of each feature [horizon]; None where the log lacks the feature or an outcome."""

    rows: int
    ends: tuple[int, ...]  # rows that end within each horizon
    scores: dict[str, list[float | None]]


def known_outcomes(rows: np.ndarray, horizon: int):
    """Which rows are known to end within `horizon` steps or not to, and which of these do."""
    known, ends = known_ends(rows[:, REMAINING], rows[:, CENSORED] == 0, rows[:, ROOM], horizon)
    return known, ends[known]


def rank(gathered: Gathered, family: int | None = None) -> Ranking | None:
    rows = gathered.sample.rows()
    if rows is None:
        return None
    survival = _survival_scores(gathered, rows)
    if family is not None:
        survival = survival[rows[:, FAMILY] == family]
        rows = rows[rows[:, FAMILY] == family]
    if not len(rows):
        return None
    outcomes = [known_outcomes(rows, horizon) for horizon in HORIZONS]
    scores = {
        label: [_score(rows[:, column], *outcome) for outcome in outcomes]
        for column, label in enumerate(NAMES.values())
    }
    scores[SURVIVAL] = [
        _score(survival[:, place], *outcome) for place, outcome in enumerate(outcomes)
    ]
    return Ranking(len(rows), tuple(int(ends.sum()) for _, ends in outcomes), scores)


def _score(values, known, ends) -> float | None:
    values = values[known]
    there = ~np.isnan(values)
    if not len(there) or there.mean() < SHARE_MIN:
        return None
    return auroc(values[there], ends[there])


def _survival_scores(gathered: Gathered, rows: np.ndarray) -> np.ndarray:
    """P(end within k | as long as now) of the row's family: [rows, horizons]."""
    scores = np.full((len(rows), len(HORIZONS)), np.nan)
    for family in gathered.families.values():
        own = rows[:, FAMILY] == family.number
        survival = kaplan_meier(family.ends)
        for place, horizon in enumerate(HORIZONS):
            scores[own, place] = ends_within(survival, rows[own, STEP].astype(int), horizon)
    return scores
