"""Piecewise linear curves over logits, so that announced probabilities come true on other answers.

Every row weighs the same: weights by answer would depend on how it ended.
"""

import numpy as np

GROUPS = 16
EVENTS_MIN = 20  # per group
LOGIT_MAX = 30.0


def fit(logits: np.ndarray, outcomes: np.ndarray, otherwise: np.ndarray) -> list[dict]:
    """One curve per bin out of the rows where the outcome is known. Where it is of none, as where
    no limit leaves as many tokens as the bin reaches to, the bin has the logit of `otherwise`."""
    return [
        curve(z[~np.isnan(seen)], seen[~np.isnan(seen)], default)
        for z, seen, default in zip(logits.T, outcomes.T, otherwise.tolist())
    ]


def curve(z: np.ndarray, happened: np.ndarray, otherwise: float) -> dict:
    groups = _groups(z, happened)
    if not groups:
        return {"x": [0.0], "y": [float(np.clip(otherwise, -LOGIT_MAX, LOGIT_MAX))]}
    x, y = zip(*[(total / count, _logit(events, count)) for total, events, count in groups])
    x, y = list(x), list(y)
    # Beyond the last group nothing is known but the order of rows, which stays.
    room = 10.0
    x, y = [x[0] - room, *x, x[-1] + room], [y[0] - room, *y, y[-1] + room]
    return {"x": x, "y": y}


def _groups(z, happened):
    """(sum of z, events, rows) by ascending z, frequencies rising (pool adjacent violators)."""
    if not len(z):
        return []
    order = np.argsort(z, kind="stable")
    z, happened = z[order], happened[order]
    # Edges at equal shares of events and of rows without: rare events are not all in one group.
    events, rest = z[happened > 0], z[happened == 0]
    count = int(min(GROUPS, max(1, min(len(events), len(rest)) // EVENTS_MIN)))
    shares = np.linspace(0, 1, count + 1)[1:-1]
    edges = [np.quantile(part, shares) for part in (events, rest) if len(part)]
    cuts = np.unique(np.searchsorted(z, np.mean(edges, axis=0))) if len(shares) else []
    pooled = []
    for zs, seen in zip(np.split(z, cuts), np.split(happened, cuts)):
        if not len(zs):
            continue
        group = [float(zs.sum()), float(seen.sum()), len(zs)]
        while pooled and _frequency(pooled[-1]) >= _frequency(group):
            group = [a + b for a, b in zip(pooled.pop(), group)]
        pooled.append(group)
    return _apart(pooled)


def _apart(groups):
    """Groups whose mean z are the same have no curve between them."""
    kept = []
    for group in groups:
        if kept and group[0] / group[2] - kept[-1][0] / kept[-1][2] < 1e-6:
            group = [a + b for a, b in zip(kept.pop(), group)]
        kept.append(group)
    return kept


def _frequency(group) -> float:
    return (group[1] + 0.5) / (group[2] + 1)


def _logit(events, count) -> float:
    share = (events + 0.5) / (count + 1)
    return float(np.log(share) - np.log1p(-share))
