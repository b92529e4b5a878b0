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


def concurrent_tau(drawings: Drawings, rows: np.ndarray, predicted: np.ndarray, actual: np.ndarray,
                   sets: int = 300, size: int = 32, seed: int = 1) -> Figure:
    """The mean tau over sets of requests that might run together: rows at random, of prompts that
    differ. The interval draws prompts again (in a set each pair counts as often as both its
    prompts were drawn), and sets, which are a sample, too."""
    prompts = drawings.of_row[rows]
    if len(np.unique(prompts)) < 2 * size:
        return Figure(None)
    rng = np.random.default_rng(seed)
    taus, pairs = [], []
    for _ in range(sets):
        chosen = rng.integers(len(predicted), size=3 * size)
        _, first = np.unique(prompts[chosen], return_index=True)
        chosen = chosen[rng.permutation(first)[:size]]
        weights = drawings.weights[:, prompts[chosen]]
        tau, count = kendall_tau(predicted[chosen], actual[chosen], weights)
        taus.append(tau)
        pairs.append(count)
    drawn = rng.multinomial(sets, np.full(sets, 1 / sets), DRAWS)
    counts = np.vstack([np.ones(sets), drawn]) * np.transpose(pairs)
    return interval((np.transpose(taus) * counts).sum(axis=1), counts.sum(axis=1))


def kendall_tau(predicted: np.ndarray, actual: np.ndarray, weights: np.ndarray):
    """Tau-b of a short list, once per row of `weights` [rows, list]: how often each member counts.
    Beside it of how many pairs it is; where one of the two ties all pairs, of none."""
    a = np.sign(predicted[:, None] - predicted)
    b = np.sign(actual[:, None] - actual)
    total = lambda table: ((weights @ table) * weights).sum(axis=1) / 2
    apart = np.sqrt(total(np.abs(a)) * total(np.abs(b)))
    tau = np.divide(total(a * b), apart, out=np.zeros(len(weights)), where=apart > 0)
    return tau, np.where(apart > 0, total(1 - np.eye(len(predicted))), 0)


def lead_times(starts: np.ndarray, alarm: np.ndarray) -> np.ndarray:
    """Per answer, over how many of its last rows the alarm stays on without a break."""
    off = np.flatnonzero(~alarm)
    place = np.searchsorted(off, starts[1:], side="left")
    last_off = np.where(place > 0, off[np.maximum(place - 1, 0)] if len(off) else -1, -1)
    return starts[1:] - 1 - np.maximum(last_off, starts[:-1] - 1)
