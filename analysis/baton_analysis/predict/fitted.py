"""What training makes: a model that says logits of a frame's rows, and, if it can be served, its
parts of a predictor file."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from baton_analysis.predict import bins, evaluators
from baton_analysis.predict.frame import Frame

SCALE_MIN = 1e-3  # of features that hardly change


class Fitted(NamedTuple):
    parts: dict | None  # keys of a file's body: model, features, mean, scale; None: not for serving
    logits: Callable[[Frame], np.ndarray]  # [rows, bins.COUNT], before calibration


def servable(model: dict, features=(), mean=(), scale=()) -> Fitted:
    """Its logits are those of the file's evaluators, so what is judged is what is served."""
    parts = {
        "model": model,
        "features": list(features),
        "mean": np.asarray(mean, dtype=float).tolist(),
        "scale": np.asarray(scale, dtype=float).tolist()
    }
    return Fitted(parts,
                  lambda frame: evaluators.logits(parts | {"calibration": None}, frame.inputs()))


def moments(table: np.ndarray):
    mean = table.mean(axis=0, dtype=np.float64)
    return mean, np.maximum(table.std(axis=0, dtype=np.float64), SCALE_MIN)


def targets(frame: Frame) -> np.ndarray:
    return bins.outcomes(frame.ends)


def some(rows: np.ndarray, limit: int, rng: np.random.Generator) -> np.ndarray:
    """At most `limit` of these row numbers, in order."""
    if len(rows) <= limit:
        return rows
    return np.sort(rng.choice(rows, limit, replace=False))
