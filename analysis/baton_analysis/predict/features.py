"""The features of all rows of an answer at once; `reference` says what they are."""

import numpy as np

from baton_analysis.eos.features import trailing
from baton_analysis.predict.reference import NONE, Request

REPEAT_WINDOW, GRAM = 64, 4

NAMES = ("step", "log_step", "log_prompt", "temperature", "top_p", "lo", "so", "entropy", "top1",
         "log_rank", "lo_mean8", "lo_max8", "lo_std8", "lo_mean32", "lo_max32", "lo_std32",
         "lo_mean", "lo_max", "lo_std", "lo_slope32", "so_mean32", "so_max32", "ent_mean8",
         "ent_mean32", "lo_ema8", "lo_ema32", "lo_ema128", "cum_hazard", "boundary", "line",
         "since_boundary", "boundaries", "after_lo", "after_so", "after_lo_prev", "after_lo_prev2",
         "after_rise", "after_so_max", "boundary_lo", "repeat4", "lo_max16", "lo_max64")


class Signals:
    """The rows of one answer, in order."""

    __slots__ = ("logprob", "hazard", "entropy", "top1", "rank", "tokens", "boundary", "line",
                 "probe")

    def __init__(self, table: np.ndarray, tokens: np.ndarray, boundary: np.ndarray,
                 line: np.ndarray, probe: np.ndarray | None = None):
        """`table`: [rows, (eos_logprob, eos_prob_sampling, entropy, top1_prob, eos_rank)]."""
        self.logprob, self.hazard, self.entropy, self.top1, self.rank = table.T
        self.tokens, self.boundary, self.line = tokens, boundary, line  # [rows]
        self.probe = probe  # [rows, width]

    @classmethod
    def of_rows(cls, rows) -> "Signals":
        none = lambda value: np.nan if value is None else value
        table = np.array([[none(value) for value in row[:5]] for row in rows], dtype=float)
        probe = np.array([row.probe for row in rows]) if rows[0].probe else None
        return cls(table, np.array([row.token for row in rows]),
                   np.array([row.boundary for row in rows]), np.array([row.line for row in rows]),
                   probe)


def known(values: np.ndarray, otherwise: float) -> np.ndarray:
    return np.where(np.isfinite(values), values, otherwise)


def log_odds(logprob: np.ndarray) -> np.ndarray:
    logprob = known(logprob, NONE)
    return np.clip(logprob - np.log1p(-np.exp(np.minimum(logprob, -1e-7))), -30, 30)


def columns(signals: Signals, request: Request) -> dict[str, np.ndarray]:
    """Every name of NAMES, and of the probe if there is one: [rows]."""
    count = len(signals.tokens)
    steps = np.arange(1, count + 1)
    at = steps - 1
    lo = log_odds(signals.logprob)
    prob = np.clip(known(signals.hazard, 0), 1e-13, 1 - 1e-7)
    so = np.clip(np.log(prob) - np.log1p(-prob), -30, 30)
    entropy = known(signals.entropy, 0)
    found = {
        "step": steps.astype(float),
        "log_step": np.log(steps),
        "log_prompt": np.full(count, np.log(1 + request.prompt_length)),
        "temperature": np.full(count, float(request.temperature)),
        "top_p": np.full(count, float(request.top_p)),
        "lo": lo,
        "so": so,
        "entropy": entropy,
        "top1": known(signals.top1, 0),
        "log_rank": np.log(np.maximum(known(signals.rank, 1), 1)),
        "cum_hazard": np.minimum(np.cumsum(-np.log1p(-prob)), 50),
        "repeat4": _repeated(signals.tokens),
    }
    for window in (8, 32):
        part = trailing(lo, at, window)
        mean, std = _mean_and_std(part)
        found[f"lo_mean{window}"], found[f"lo_std{window}"] = mean, std
    for window in (8, 16, 32, 64):
        found[f"lo_max{window}"] = np.nanmax(trailing(lo, at, window), axis=1)
    found["lo_mean"], found["lo_std"] = _running(lo, steps)
    found["lo_max"] = np.maximum.accumulate(lo)
    found["lo_slope32"] = _slopes(trailing(lo, at, 32))
    part = trailing(so, at, 32)
    found["so_mean32"], found["so_max32"] = np.nanmean(part, axis=1), np.nanmax(part, axis=1)
    for window in (8, 32):
        found[f"ent_mean{window}"] = np.nanmean(trailing(entropy, at, window), axis=1)
    for window in (8, 32, 128):
        found[f"lo_ema{window}"] = _moving(lo, 2 / (window + 1))
    found |= _boundary_columns(signals, lo, so)
    if signals.probe is not None:
        for i in range(signals.probe.shape[1]):
            found[f"probe[{i}]"] = signals.probe[:, i].astype(float)
            found[f"first_probe[{i}]"] = np.full(count, float(signals.probe[0, i]))
    return found


def _mean_and_std(part):
    mean = np.nanmean(part, axis=1)
    return mean, np.sqrt(np.nanmean((part - mean[:, None])**2, axis=1))


def _running(x, steps):
    # Around a value of their own size, so that squares lose no digits.
    y = x - x[0]
    mean = np.cumsum(y) / steps
    return mean + x[0], np.sqrt(np.maximum(0, np.cumsum(y * y) / steps - mean**2))


def _slopes(part):
    there = ~np.isnan(part)
    count = there.sum(axis=1)
    t = np.arange(part.shape[1]) - (part.shape[1] - 1 - (count - 1) / 2)[:, None]
    up = np.where(there, t * part, 0).sum(axis=1)
    across = np.where(there, t * t, 0).sum(axis=1)
    return np.divide(up, across, out=np.zeros(len(part)), where=count > 1)


def _moving(values, share):
    average, averages = values[0], []
    for value in values.tolist():
        average += (value - average) * share
        averages.append(average)
    return np.array(averages)


def _repeated(tokens):
    share = np.zeros(len(tokens))
    if len(tokens) < GRAM:
        return share
    last, again = {}, []
    ids = tokens.tolist()
    for at, gram in enumerate(zip(ids, ids[1:], ids[2:], ids[3:])):
        again.append(at - last.get(gram, -REPEAT_WINDOW - 1) <= REPEAT_WINDOW)
        last[gram] = at
    sums = np.concatenate(([0], np.cumsum(again)))
    ends = np.arange(1, len(again) + 1)
    starts = np.maximum(0, ends - REPEAT_WINDOW)
    share[GRAM - 1:] = (sums[ends] - sums[starts]) / (ends - starts)
    return share


def _boundary_columns(signals: Signals, lo, so):
    count = len(lo)
    at = np.arange(count)
    boundaries = np.flatnonzero(signals.boundary)
    so_far = np.cumsum(signals.boundary)
    last = np.where(so_far > 0, boundaries[so_far - 1] if len(boundaries) else 0, -1)
    after = boundaries[boundaries + 1 < count] + 1
    seen = np.searchsorted(after, at, side="right")  # rows after boundaries, up to here

    def nth_last(values, n):
        padded = np.concatenate((np.full(n, NONE), values[after]))
        return padded[seen]

    found = {
        "boundary": signals.boundary.astype(float),
        "line": signals.line.astype(float),
        "since_boundary": np.where(last >= 0, at - last, at + 1).astype(float),
        "boundaries": so_far.astype(float),
        "after_lo": nth_last(lo, 1),
        "after_lo_prev": nth_last(lo, 2),
        "after_lo_prev2": nth_last(lo, 3),
        "after_so": nth_last(so, 1),
        "boundary_lo": np.where(last >= 0, lo[last], NONE),
    }
    found["after_rise"] = np.where(seen >= 3, found["after_lo"] - found["after_lo_prev2"], 0)
    peaks = np.maximum.accumulate(np.concatenate(([NONE], so[after])))
    found["after_so_max"] = peaks[seen]
    return found
