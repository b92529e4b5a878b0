"""The statistics of the report, each a few lines: survival, ranking and calibration."""

from collections import Counter
from typing import NamedTuple

import numpy as np

ECE_BINS = 15


class Ends:
    """How many answers ended by themselves, and how many were cut off, after how many tokens."""

    def __init__(self):
        self.natural = Counter()
        self.censored = Counter()

    def add(self, length: int, natural: bool):
        (self.natural if natural else self.censored)[length] += 1

    @property
    def count(self) -> int:
        return self.natural.total() + self.censored.total()

    def natural_quantile(self, share: float) -> int | None:
        """The length that `share` of the natural ends keep to, whatever was cut off."""
        seen, wanted = 0, share * self.natural.total()
        for length in sorted(self.natural):
            seen += self.natural[length]
            if seen >= wanted:
                return length
        return None

    def __add__(self, other: "Ends") -> "Ends":
        both = Ends()
        both.natural = self.natural + other.natural
        both.censored = self.censored + other.censored
        return both


class Survival(NamedTuple):
    """The estimated share of answers longer than t tokens. It changes at few lengths, so it takes
    memory for those that occur, not for each up to the longest."""

    lengths: np.ndarray  # ascending, from 0
    shares: np.ndarray  # from each length up to the next

    def at(self, steps: np.ndarray) -> np.ndarray:
        return self.shares[np.searchsorted(self.lengths, steps, side="right") - 1]


def kaplan_meier(ends: Ends) -> Survival:
    """An answer that was cut off after c tokens counts among those that might have ended at steps
    up to and including c, and in nothing after."""
    lengths = sorted({0, *ends.natural, *ends.censored})
    died = np.array([ends.natural[length] for length in lengths], dtype=float)
    left = np.array([ends.censored[length] for length in lengths], dtype=float)
    gone = np.cumsum(died + left)
    at_risk = ends.count - np.concatenate(([0], gone[:-1]))
    return Survival(np.array(lengths), np.cumprod(1 - died / np.maximum(at_risk, 1)))


def survival_quantile(survival: Survival, share: float) -> int | None:
    """The length after which `share` of the answers have ended; None: too many were cut off."""
    reached = np.flatnonzero(survival.shares <= 1 - share + 1e-12)
    return int(survival.lengths[reached[0]]) if len(reached) else None


def known_ends(after: np.ndarray, natural: np.ndarray, room: np.ndarray, last: int,
               first: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Which rows tell whether an answer ends `first` to `last` tokens on, of those that get so far,
    and which of these rows' answers do. `after`: tokens that followed a row; `natural`: whether the
    last of them was the end, else more were to come; `room`: how many its limit left.

    A row whose limit left less than `last` is out, however its answer ended: of what the limit cut
    off nothing is known, so the others would be mostly ends. Where something else cut an answer off
    no such rule can be had, because nobody knows when it would have cut one that ended before. As
    in life tables such rows count by halves: one that was cut in the second half of these tokens as
    gone on, one in the first half not at all.
    """
    seen = np.where(natural, after >= first, after - (first - 1) >= (last - first + 1) / 2)
    known = seen & (room >= last)
    return known, known & natural & (after <= last)


def ends_within(survival: Survival, steps: np.ndarray, horizon: int) -> np.ndarray:
    """The chance of an end at one of the next `horizon` steps, of answers that are `steps` long."""
    now, later = survival.at(steps), survival.at(steps + horizon)
    return 1 - np.divide(later, now, out=np.zeros(len(steps)), where=now > 0)


def auroc(scores: np.ndarray, positive: np.ndarray) -> float | None:
    """The chance that a positive has the higher score than a negative; a tie counts one half."""
    positives = int(positive.sum())
    negatives = len(positive) - positives
    if positives == 0 or negatives == 0:
        return None
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    middle_rank = np.cumsum(counts) - (counts - 1) / 2
    above = middle_rank[place][positive].sum() - positives * (positives + 1) / 2
    return float(above / (positives * negatives))


class Reliability:
    """What was announced against what happened, over bins of the announced probability."""

    def __init__(self, edges: np.ndarray):
        self.edges = edges
        bins = len(edges) - 1
        self.count, self.announced, self.happened = np.zeros((3, bins))

    def add(self, probabilities: np.ndarray, happened: np.ndarray):
        known = ~np.isnan(probabilities)
        p, event = probabilities[known], happened[known]
        bins = np.clip(np.searchsorted(self.edges, p, side="right") - 1, 0, len(self.count) - 1)
        self.count += np.bincount(bins, minlength=len(self.count))
        self.announced += np.bincount(bins, p, minlength=len(self.count))
        self.happened += np.bincount(bins, event, minlength=len(self.count))

    def expected_calibration_error(self) -> float | None:
        """The mean distance of announced and seen frequency; every row weighs the same."""
        total = self.count.sum()
        return float(np.abs(self.announced - self.happened).sum() / total) if total else None

    def points(self):
        """Of each bin: mean announced, share that happened, its 95 % interval, whether any did."""
        used = self.count > 0
        count, happened = self.count[used], self.happened[used]
        share = happened / count
        low, high = wilson(share, count)
        return self.announced[used] / count, share, low, high, happened > 0


def equal_bins() -> np.ndarray:
    return np.linspace(0, 1, ECE_BINS + 1)


def wilson(share: np.ndarray, count: np.ndarray, z: float = 1.96):
    """The 95 % interval of a frequency after Wilson (1927)."""
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z * np.sqrt(share * (1 - share) / count + z * z / (4 * count**2)) / (1 + z * z / count)
    return np.maximum(0, middle - half), np.minimum(1, middle + half)
