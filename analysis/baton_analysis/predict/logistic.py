"""M2: a logistic hazard per bin, linear in the features of a row."""

import numpy as np
from sklearn.linear_model import LogisticRegression

from baton_analysis.predict import bins, file
from baton_analysis.predict.features import NAMES
from baton_analysis.predict.fitted import Fitted, moments, servable, some, targets
from baton_analysis.predict.frame import Frame

ROWS_MAX = 80_000  # per bin


def fit(train: Frame, valid: Frame, seed: int, options) -> Fitted:
    rng = np.random.default_rng(seed)
    table = train.select(NAMES)
    mean, scale = moments(table)
    outcomes = targets(train)
    weights, bias = np.zeros((bins.COUNT, len(NAMES))), np.zeros(bins.COUNT)
    for column in range(bins.COUNT):
        rows = some(np.flatnonzero(~np.isnan(outcomes[:, column])), ROWS_MAX, rng)
        happened = outcomes[rows, column]
        if not 0 < happened.sum() < len(happened):
            bias[column] = constant_logit(happened)
            continue
        model = LogisticRegression(max_iter=100, C=1.0)
        model.fit((table[rows] - mean) / scale, happened)
        weights[column], bias[column] = model.coef_[0], model.intercept_[0]
    return servable(
        {
            "kind": "logistic",
            "weights": file.encoded(weights, "<f8"),
            "bias": bias.tolist()
        }, NAMES, mean, scale)


def constant_logit(happened: np.ndarray) -> float:
    """Of a bin in which every training row ended, or none."""
    share = (happened.sum() + 0.5) / (len(happened) + 1)
    return float(np.log(share) - np.log1p(-share))
