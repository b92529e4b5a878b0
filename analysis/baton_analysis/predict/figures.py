"""How good announced ends were, with intervals by drawing prompts again.

A figure is computed from sums per prompt, so a drawing of prompts costs no pass over rows. Every
row weighs the same.
"""

from typing import NamedTuple

import numpy as np

from baton_analysis.eos.statistics import ECE_BINS, auroc

DRAWS = 200
GRADES = 1024  # of a score, where prompts are drawn again


class Figure(NamedTuple):
    value: float | None
    low: float | None = None  # the 95 % interval
    high: float | None = None


class Drawings:
    """How often each prompt is drawn, once as it is (row 0) and DRAWS times at random."""

    def __init__(self, prompt_of_row: np.ndarray, seed: int = 1):
        names, self.of_row = np.unique(prompt_of_row, return_inverse=True)
        self.count = len(names)
        rng = np.random.default_rng(seed)
        drawn = rng.multinomial(self.count, np.full(self.count, 1 / max(1, self.count)), DRAWS)
        self.weights = np.vstack([np.ones(self.count), drawn])  # [1 + DRAWS, prompts]

    def sums(self, rows, values) -> np.ndarray:
        """Of `values` of these rows, per drawing: [1 + DRAWS]."""
        return self.weights @ np.bincount(self.of_row[rows], values, minlength=self.count)

    def ratio(self, rows, above, below=None) -> Figure:
        below = np.ones(len(rows)) if below is None else below
        return interval(self.sums(rows, above), self.sums(rows, below))

    def table(self, rows, column, columns, values=None) -> np.ndarray:
        """Sums per drawing and column: [1 + DRAWS, columns]."""
        place = self.of_row[rows] * columns + column
        sums = np.bincount(place, values, minlength=self.count * columns)
        return self.weights @ sums.reshape(self.count, columns)


def interval(above: np.ndarray, below: np.ndarray | float = 1.0) -> Figure:
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.asarray(above, dtype=float) / below
    if not np.isfinite(values[0]):
        return Figure(None)
    drawn = values[1:][np.isfinite(values[1:])]
    if len(drawn) < DRAWS // 2:
        return Figure(float(values[0]))
    low, high = np.quantile(drawn, (0.025, 0.975))
    return Figure(float(values[0]), float(low), float(high))


def ranking(drawings: Drawings, rows, scores, happened) -> tuple[Figure, Figure]:
    """AUROC and AUPRC (average precision)."""
    exact = auroc(scores, happened)
    if exact is None:
        return Figure(None), Figure(None)
    edges = np.unique(np.quantile(scores, np.linspace(0, 1, GRADES + 1)[1:-1]))
    grade = np.searchsorted(edges, scores)
    positive = drawings.table(rows[happened], grade[happened], GRADES)
    negative = drawings.table(rows[~happened], grade[~happened], GRADES)
    below = np.cumsum(negative, axis=1) - negative / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        area = (positive * below).sum(axis=1) / (positive.sum(axis=1) * negative.sum(axis=1))
    area[0] = exact
    taken = np.cumsum(positive[:, ::-1], axis=1)
    all_taken = taken + np.cumsum(negative[:, ::-1], axis=1)
    precision = np.divide(taken, all_taken, out=np.zeros_like(taken), where=all_taken > 0)
    average = (precision * positive[:, ::-1]).sum(axis=1)
    return interval(area), interval(average, positive.sum(axis=1))


def calibration_error(drawings: Drawings, rows, chances, happened) -> Figure:
    """ECE over 15 equal bins of the announced chance."""
    column = np.minimum((chances * ECE_BINS).astype(int), ECE_BINS - 1)
    off = drawings.table(rows, column, ECE_BINS, chances - happened)
    return interval(np.abs(off).sum(axis=1), drawings.sums(rows, np.ones(len(rows))))


def kendall_tau(predicted: np.ndarray, actual: np.ndarray) -> float | None:
    """Tau-b of two short lists."""
    upper = np.triu_indices(len(predicted), 1)
    a = np.sign(predicted[:, None] - predicted)[upper]
    b = np.sign(actual[:, None] - actual)[upper]
    pairs = np.sqrt((a != 0).sum() * (b != 0).sum())
    return float((a * b).sum() / pairs) if pairs else None


def concurrent_tau(prompts: np.ndarray, predicted: np.ndarray, actual: np.ndarray, sets: int = 300,
                   size: int = 32, seed: int = 1) -> Figure:
    """The mean tau over sets of requests that might run together: rows at random, of prompts that
    differ. The interval draws sets again."""
    if len(np.unique(prompts)) < 2 * size:
        return Figure(None)
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(sets):
        rows = rng.integers(len(predicted), size=3 * size)
        _, first = np.unique(prompts[rows], return_index=True)
        rows = rows[rng.permutation(first)[:size]]
        tau = kendall_tau(predicted[rows], actual[rows])
        if tau is not None:
            found.append(tau)
    if not found:
        return Figure(None)
    drawn = rng.choice(found, (DRAWS, len(found))).mean(axis=1)
    return interval(np.concatenate(([np.mean(found)], drawn)))


def lead_times(starts: np.ndarray, alarm: np.ndarray) -> np.ndarray:
    """Per answer, over how many of its last rows the alarm stays on without a break."""
    off = np.flatnonzero(~alarm)
    place = np.searchsorted(off, starts[1:], side="left")
    last_off = np.where(place > 0, off[np.maximum(place - 1, 0)] if len(off) else -1, -1)
    return starts[1:] - 1 - np.maximum(last_off, starts[:-1] - 1)
