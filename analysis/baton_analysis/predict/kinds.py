"""The models that are trained and compared, by name."""

import importlib
from typing import NamedTuple

import numpy as np

from baton_analysis.errors import InputError
from baton_analysis.predict import survival
from baton_analysis.predict.fitted import Fitted, servable
from baton_analysis.predict.frame import Frame


class Kind(NamedTuple):
    title: str
    module: str
    function: str
    needs_probe: bool = False
    seeded: bool = True  # its result differs between seeds


_NETWORKS = "networks"
KINDS = {
    "survival": Kind("M0 survival per class", "kinds", "fit_survival", seeded=False),
    "thresholds": Kind("M1 eos_prob > 0.5 or mean > 0.3", "thresholds", "fit", seeded=False),
    "logistic": Kind("M2 logistic", "logistic", "fit", seeded=False),
    "forest": Kind("M3 random forest", "trees", "fit_forest"),
    "boosted": Kind("M3 boosted trees", "trees", "fit_boosted"),
    "mlp": Kind("M4 network", _NETWORKS, "fit_mlp"),
    "gru": Kind("M5 GRU", _NETWORKS, "fit_gru"),
    "lstm": Kind("LSTM", _NETWORKS, "fit_lstm"),
    "transformer": Kind("Transformer", _NETWORKS, "fit_transformer"),
    "first-probe": Kind("P0 probe at prefill", _NETWORKS, "fit_first_probe", needs_probe=True),
    "probe": Kind("H probe while decoding", _NETWORKS, "fit_probe", needs_probe=True),
    "combination": Kind("combination", _NETWORKS, "fit_combination"),
}
INSTALL = "type: scripts/eos setup"


def fit(name: str, train: Frame, valid: Frame, seed: int, options) -> Fitted:
    kind = KINDS[name]
    if kind.needs_probe and not any(column.startswith("probe[") for column in train.names):
        raise InputError(f"--kind {name} needs projections, and the data set has none; collect it "
                         "with --hidden from a service that has a probe")
    try:
        module = importlib.import_module(f"baton_analysis.predict.{kind.module}")
    except ImportError as error:
        raise InputError(f"--kind {name}: {error}; {INSTALL}") from error
    return getattr(module, kind.function)(train, valid, seed, options)


def fit_survival(train: Frame, valid: Frame, seed: int, options) -> Fitted:
    """Of all answers as one class: a service's classes are what its clients name, not families."""
    return servable(prior(train))


def prior(train: Frame) -> dict:
    """M0 of all answers as one class."""
    lengths = np.array([answer.length for answer in train.answers])
    natural = np.array([answer.natural for answer in train.answers])
    return survival.fit(lengths, natural)
