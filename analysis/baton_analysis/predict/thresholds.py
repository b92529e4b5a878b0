"""M1: alarms by fixed thresholds, a known experiment's rule: `eos_prob > 0.5 or mean > 0.3`.

What an alarm is worth is read off the training rows, so that it has chances like any other model.
"""

import numpy as np

from baton_analysis.predict import bins
from baton_analysis.predict.fitted import Fitted, targets
from baton_analysis.predict.frame import Frame


def alarms(frame: Frame) -> np.ndarray:
    """[rows], bool. The mean is that of all rows so far."""
    prob = bins.sigmoid(frame.column("lo").astype(float))
    sums = np.cumsum(prob)
    before = np.concatenate(([0], sums))[frame.starts[:-1]][frame.answer_of]
    return (prob > 0.5) | ((sums - before) / frame.steps > 0.3)


def fit(train: Frame, valid: Frame, seed: int, options) -> Fitted:
    outcomes, alarm = targets(train), alarms(train)
    table = np.empty((2, bins.COUNT))
    for on in (0, 1):
        rows = outcomes[alarm == on]
        known = ~np.isnan(rows)
        overall = (np.nansum(outcomes, axis=0) + 0.5) / ((~np.isnan(outcomes)).sum(axis=0) + 1)
        share = (np.nansum(rows, axis=0) + overall) / (known.sum(axis=0) + 1)
        table[on] = np.log(share) - np.log1p(-share)
    return Fitted(None, lambda frame: table[alarms(frame).astype(int)])
