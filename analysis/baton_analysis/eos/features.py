"""What can be read off the rows 1..t of a request when row t is there, not off later ones."""

import numpy as np

from baton_analysis.eos.log import ENTROPY, HAZARD, RANK, STEP, TOKEN, TOP1, Sequence

WINDOWS = (8, 32)
REPEAT_WINDOW = 32
GRAM = 4

# Key -> what it is called in pictures; the order of the columns of `features`.
NAMES = {
    "now": "EOS log-odds, this row",
    "sampling": "EOS chance after sampling, this row",
    "rank": "EOS rank, this row",
    "entropy": "entropy, this row",
    "gap": "EOS gap to the likeliest, this row",
    **{
        f"{kind}_{window}": f"EOS {kind}, "
        f"{'all rows' if window == 'all' else f'last {window} rows'}"
        for kind in ("mean", "max", "std")
        for window in (*WINDOWS, "all")
    },
    "slope": "EOS slope, last 32 rows",
    "repeats": "repeated 4-grams, last 32 rows",
    "length": "length so far",
    "behind_end": "EOS behind the last sentence end",
    "at_end": "EOS at the last sentence end",
    "rise": "EOS rise over 3 sentence ends",
    "highest": "EOS highest behind sentence ends",
    "since_end": "rows since the last sentence end",
}


def log_odds(logprob: np.ndarray) -> np.ndarray:
    """ln(p / (1 - p)) from ln p, exact for p near 0; near 1 as far as ln p tells."""
    with np.errstate(divide="ignore"):
        return logprob - np.log(-np.expm1(np.minimum(logprob, -1e-16)))


def features(sequence: Sequence, at: np.ndarray, ends: np.ndarray | None = None) -> np.ndarray:
    """The features of the rows with the indices `at`: [len(at), len(NAMES)]. `ends`: of each row
    whether its token ends a sentence or a line; None where that is not known."""
    x = sequence.logprob
    columns = {
        "now": log_odds(x[at]),
        "sampling": sequence.rows[at, HAZARD],
        "rank": sequence.rows[at, RANK],
        "entropy": sequence.rows[at, ENTROPY],
        "gap": gaps(sequence.rows[at, TOP1], x[at]),
        "repeats": _window(repeated_grams(sequence.rows[:, TOKEN]), at, REPEAT_WINDOW, np.nanmean),
        "length": sequence.rows[at, STEP],
    }
    for window in WINDOWS:
        rows = trailing(x, at, window)
        columns[f"mean_{window}"], columns[f"max_{window}"], columns[f"std_{window}"] = moments(
            rows)
    columns["slope"] = slopes(trailing(x, at, 32))
    for kind, values in zip(("mean", "max", "std"), running(x)):
        columns[f"{kind}_all"] = values[at]
    columns |= {key: values[at] for key, values in sentence_ends(x, ends).items()}
    return np.column_stack([columns[key] for key in NAMES])


def gaps(top1: np.ndarray, logprob: np.ndarray) -> np.ndarray:
    """How far ln p of EOS is below that of the likeliest token."""
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = np.log(top1) - logprob
    return np.where(np.isfinite(gap), gap, np.nan)


def sentence_ends(x: np.ndarray, ends: np.ndarray | None) -> dict[str, np.ndarray]:
    """What the rows at sentence ends and right behind them had, as known at each row; NaN before
    there was any. The row behind an end is that in which the answer might have ended there."""
    nothing = np.full(len(x), np.nan)
    if ends is None:
        return dict.fromkeys(("behind_end", "at_end", "rise", "highest", "since_end"), nothing)
    rows = np.arange(len(x))
    at = np.flatnonzero(ends)
    behind = at[at + 1 < len(x)] + 1

    def nth_last(places, n):
        seen = np.searchsorted(places, rows, side="right")
        return np.concatenate((np.full(n, np.nan), x[places]))[seen]

    highest = np.fmax.accumulate(np.concatenate(([np.nan], x[behind])))
    last = np.concatenate(([np.nan], at))[np.searchsorted(at, rows, side="right")]
    return {
        "behind_end": nth_last(behind, 1),
        "at_end": nth_last(at, 1),
        "rise": nth_last(behind, 1) - nth_last(behind, 3),
        "highest": highest[np.searchsorted(behind, rows, side="right")],
        "since_end": rows - last,
    }


def trailing(x: np.ndarray, at: np.ndarray, window: int) -> np.ndarray:
    """The last `window` values up to each index: [len(at), window]; NaN before the first."""
    padded = np.concatenate((np.full(window - 1, np.nan), x))
    return np.lib.stride_tricks.sliding_window_view(padded, window)[at]


def moments(rows: np.ndarray):
    """Mean, max and standard deviation along each row, of what is known."""
    known = ~np.isnan(rows)
    count = known.sum(axis=1)
    some = count > 0
    count = np.maximum(count, 1)
    mean = np.where(known, rows, 0).sum(axis=1) / count
    square = np.where(known, rows - mean[:, None], 0)**2
    peak = np.where(known, rows, -np.inf).max(axis=1)
    return tuple(
        np.where(some, value, np.nan)
        for value in (mean, peak, np.sqrt(square.sum(axis=1) / count)))


def running(x: np.ndarray):
    """Mean, max and standard deviation of all values so far, for every index."""
    known = ~np.isnan(x)
    count = np.cumsum(known)
    some = count > 0
    count = np.maximum(count, 1)
    # Around a value of their own size, so that squares lose no digits.
    base = x[known][0] if known.any() else 0.0
    y = np.where(known, x - base, 0)
    mean = np.cumsum(y) / count
    std = np.sqrt(np.maximum(0, np.cumsum(y * y) / count - mean**2))
    peak = np.maximum.accumulate(np.where(known, x, -np.inf))
    return tuple(np.where(some, value, np.nan) for value in (mean + base, peak, std))


def slopes(rows: np.ndarray) -> np.ndarray:
    """The least-squares slope per step along each row, of what is known; NaN under three values."""
    known = ~np.isnan(rows)
    count = known.sum(axis=1)
    safe = np.maximum(count, 1)
    t = np.where(known, np.arange(rows.shape[1], dtype=float), 0)
    y = np.where(known, rows, 0)
    t_mean, y_mean = t.sum(axis=1) / safe, y.sum(axis=1) / safe
    dt = np.where(known, t - t_mean[:, None], 0)
    up = (dt * np.where(known, y - y_mean[:, None], 0)).sum(axis=1)
    return np.where(count >= 3, up / np.maximum((dt * dt).sum(axis=1), 1e-300), np.nan)


def repeated_grams(tokens: np.ndarray) -> np.ndarray:
    """1 where the four tokens up to this one were there before, else 0; NaN for the first three."""
    repeated = np.full(len(tokens), np.nan)
    if len(tokens) < GRAM or np.isnan(tokens).any():
        return repeated
    grams = np.lib.stride_tricks.sliding_window_view(tokens.astype(np.uint64), GRAM)
    key = grams[:, 0].copy()
    for column in range(1, GRAM):
        key = key * np.uint64(0x9E3779B97F4A7C15) + grams[:, column]
    _, first, place = np.unique(key, return_index=True, return_inverse=True)
    repeated[GRAM - 1:] = first[place] != np.arange(len(key))
    return repeated


def _window(x, at, window, reduce):
    rows = trailing(x, at, window)
    empty = np.isnan(rows).all(axis=1)
    rows[empty] = 0
    return np.where(empty, np.nan, reduce(rows, axis=1))
