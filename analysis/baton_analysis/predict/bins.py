"""Remaining tokens in bins, and what hazards of bins say about the end.

A row t of an answer that ends with step T (EOS counted) has r = T - t tokens to go. A model gives
one logit per bin but the last: of h = P(r in the bin | r not below it). In the last bin everything
ends.
"""

from typing import NamedTuple

import numpy as np

from baton_analysis.eos.statistics import known_ends

UPPER = np.array([1, 2, 4, 8, 16, 32, 64, 128, 256, 1024])  # inclusive; the last bin has no end
LOWER = np.concatenate(([1], UPPER[:-1] + 1))
COUNT = len(UPPER)  # of logits; there is one bin more
HORIZONS = (1, 4, 16, 64, 256)  # those of the interface
TAIL_MEAN_DEFAULT = 2048.0
ROUNDING = 1e-9  # of a quantile in tokens: what is a whole number but for that is one


class Ends(NamedTuple):
    """What is known of each row: r == after of a natural end, r > after of one that was cut off."""

    after: np.ndarray  # [rows]
    natural: np.ndarray  # [rows], bool
    room: np.ndarray  # [rows]: tokens that the request's limit left

    def __getitem__(self, at) -> "Ends":
        return Ends(self.after[at], self.natural[at], self.room[at])

    def within(self, horizon: int):
        """Which rows tell whether the answer ends within `horizon`, and which of all rows do."""
        return known_ends(self.after, self.natural, self.room, horizon)

    @property
    def to_limit(self) -> np.ndarray:
        """Rows of answers that ended by themselves or at their limit: of these min(r, room) is
        known, whatever the limit."""
        return self.natural | (self.after >= self.room)


def outcomes(ends: Ends) -> np.ndarray:
    """Per row and bin 1: ends there, 0: goes on beyond it, NaN: not at risk or not known.

    [rows, COUNT].
    """
    table = np.full((len(ends.after), COUNT), np.nan, dtype=np.float32)
    for column, (first, last) in enumerate(zip(LOWER.tolist(), UPPER.tolist())):
        known, ended = known_ends(ends.after, ends.natural, ends.room, last, first)
        table[known, column] = ended[known]
    return table


def tail_mean(ends: Ends) -> float:
    """Of r beyond the last upper end, at the rate of ends among all tokens that were seen there."""
    beyond = ends[ends.after > UPPER[-1]]
    if not beyond.natural.any():
        return TAIL_MEAN_DEFAULT
    return float(UPPER[-1] + (beyond.after - UPPER[-1]).sum() / beyond.natural.sum())


def sigmoid(z: np.ndarray) -> np.ndarray:
    low = np.exp(-np.abs(z))
    return np.where(z >= 0, 1 / (1 + low), low / (1 + low))


def within(logits: np.ndarray) -> np.ndarray:
    """P(r <= upper end) of each bin but the last: [rows, COUNT]."""
    return 1 - np.cumprod(1 - sigmoid(logits), axis=1)


def horizon_column(horizon: int) -> int:
    return int(np.flatnonzero(UPPER == horizon)[0])


def expected(chances: np.ndarray, tail: float) -> np.ndarray:
    """E[r] of `within`'s rows; mass lies in the middle of its bin, that of the last at `tail`."""
    middle = np.append((LOWER + UPPER) / 2, tail)
    return np.diff(chances, axis=1, prepend=0, append=1) @ middle


def quantile(chances: np.ndarray, tail: float, q: float) -> np.ndarray:
    """The smallest whole x with P(r <= x) >= q, where each token of a bin is as likely: [rows]."""
    knots = np.concatenate(([0], UPPER, [2 * tail - (UPPER[-1] + 1)])).astype(float)
    rows = len(chances)
    cdf = np.column_stack([np.zeros(rows), chances, np.ones(rows)])
    above = np.argmax(cdf >= q, axis=1)
    at = np.arange(rows)
    low, high = cdf[at, above - 1], cdf[at, above]
    found = knots[above - 1] + (q - low) / (high - low) * (knots[above] - knots[above - 1])
    return np.ceil(found - ROUNDING)
