"""M3: boosted trees, which can be served, and a random forest to compare with; per bin each."""

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

from baton_analysis.predict import bins, file
from baton_analysis.predict.features import NAMES
from baton_analysis.predict.fitted import Fitted, servable, some, targets
from baton_analysis.predict.frame import Frame
from baton_analysis.predict.logistic import constant_logit

BOOSTED_ROWS_MAX, FOREST_ROWS_MAX = 200_000, 100_000  # per bin
FOREST_TREE_ROWS_MAX = 10_000
HAZARD_MIN = 1e-4  # of a forest, whose leaves may be pure


def fit_boosted(train: Frame, valid: Frame, seed: int, options) -> Fitted:
    forests, base = [], []
    for rows, happened in _bins(train, seed, BOOSTED_ROWS_MAX):
        if not 0 < happened.sum() < len(happened):
            forests.append([])
            base.append(constant_logit(happened))
            continue
        model = HistGradientBoostingClassifier(max_iter=options.trees, learning_rate=0.1,
                                               max_leaf_nodes=12, min_samples_leaf=40,
                                               l2_regularization=1.0, early_stopping=False,
                                               random_state=seed)
        model.fit(rows, happened)
        forests.append([_tree(stage[0].nodes) for stage in model._predictors])
        base.append(float(model._baseline_prediction.ravel()[0]))
    count = len(NAMES)
    return servable({
        "kind": "trees",
        "bins": forests,
        "base": base
    }, NAMES, np.zeros(count), np.ones(count))


def fit_forest(train: Frame, valid: Frame, seed: int, options) -> Fitted:
    models = []
    for rows, happened in _bins(train, seed, FOREST_ROWS_MAX):
        model = RandomForestClassifier(n_estimators=max(8, options.trees // 3), min_samples_leaf=8,
                                       max_samples=min(len(happened), FOREST_TREE_ROWS_MAX),
                                       n_jobs=options.threads, random_state=seed)
        both = 0 < happened.sum() < len(happened)
        models.append(model.fit(rows, happened) if both else constant_logit(happened))

    def logits(frame: Frame) -> np.ndarray:
        table = frame.select(NAMES)
        return np.column_stack([_forest_logit(model, table) for model in models])

    return Fitted(None, logits)


def _bins(train: Frame, seed: int, rows_max: int):
    """Per bin the rows at risk, [rows, NAMES], and whether each ends in it."""
    rng = np.random.default_rng(seed)
    table, outcomes = train.select(NAMES), targets(train)
    for column in range(bins.COUNT):
        rows = some(np.flatnonzero(~np.isnan(outcomes[:, column])), rows_max, rng)
        yield table[rows], outcomes[rows, column]


def _forest_logit(model, table):
    if isinstance(model, float):
        return np.full(len(table), model)
    share = np.clip(model.predict_proba(table)[:, 1], HAZARD_MIN, 1 - HAZARD_MIN)
    return np.log(share) - np.log1p(-share)


def _tree(nodes) -> dict:
    leaf = nodes["is_leaf"].astype(bool)
    return {
        "f": file.encoded(np.where(leaf, -1, nodes["feature_idx"]), "<i2"),
        "t": file.encoded(np.where(leaf, nodes["value"], nodes["num_threshold"]), "<f8"),
        "l": file.encoded(np.where(leaf, -1, nodes["left"].astype(int)), "<i2"),
        "r": file.encoded(np.where(leaf, -1, nodes["right"].astype(int)), "<i2"),
    }
