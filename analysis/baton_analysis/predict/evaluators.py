"""What a predictor file says of rows: the reference that the service's evaluators are held to."""

import base64
from typing import NamedTuple

import numpy as np

from baton_analysis.predict import bins, survival


class Inputs(NamedTuple):
    """Answers one after the other."""

    columns: dict[str, np.ndarray]  # of each feature [rows], float64
    starts: np.ndarray  # [answers + 1]; where each begins among the rows
    classes: list[str]  # of each answer its length class

    @property
    def rows(self) -> int:
        return int(self.starts[-1])

    def table(self, names, mean, scale) -> np.ndarray:
        """[rows, names], standardised."""
        if not names:
            return np.zeros((self.rows, 0))
        raw = np.column_stack([self.columns[name] for name in names])
        return (raw - np.array(mean)) / np.array(scale)


class Estimates(NamedTuple):
    within: np.ndarray  # [rows, bins.COUNT]: P(r <= upper end)
    expected_remaining: np.ndarray  # [rows]
    p50: np.ndarray
    p90: np.ndarray


def estimates(body: dict, inputs: Inputs) -> Estimates:
    return of_logits(logits(body, inputs), body["tail_mean"])


def of_logits(table: np.ndarray, tail_mean: float) -> Estimates:
    chances = bins.within(table)
    return Estimates(chances, bins.expected(chances, tail_mean),
                     bins.quantile(chances, tail_mean, 0.5), bins.quantile(chances, tail_mean, 0.9))


def logits(body: dict, inputs: Inputs) -> np.ndarray:
    """[rows, bins.COUNT], calibrated."""
    x = inputs.table(body["features"], body["mean"], body["scale"])
    return calibrated(model_logits(body["model"], x, inputs), body["calibration"])


def calibrated(table: np.ndarray, curves: list[dict] | None) -> np.ndarray:
    if curves is None:
        return table
    return np.column_stack(
        [np.interp(z, curve["x"], curve["y"]) for z, curve in zip(table.T, curves)])


def model_logits(model: dict, x: np.ndarray, inputs: Inputs) -> np.ndarray:
    return _KINDS[model["kind"]](model, x, inputs)


def decoded(text: str, kind: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text, validate=True), dtype=kind)


def _survival(model, _, inputs):
    return survival.logits(model, inputs.columns["step"], inputs.classes, inputs.starts)


def _logistic(model, x, _):
    weights = decoded(model["weights"], "<f8").reshape(bins.COUNT, -1)
    return x @ weights.T + np.array(model["bias"])


def _trees(model, x, _):
    table = np.tile(np.array(model["base"], dtype=float), (len(x), 1))
    for column, forest in enumerate(model["bins"]):
        for tree in forest:
            table[:, column] += tree_values(tree, x)
    return table


def tree_values(tree: dict, x: np.ndarray) -> np.ndarray:
    feature, threshold = decoded(tree["f"], "<i2"), decoded(tree["t"], "<f8")
    left, right = decoded(tree["l"], "<i2"), decoded(tree["r"], "<i2")
    node = np.zeros(len(x), dtype=int)
    moving = np.arange(len(x))
    while len(moving):
        at = node[moving]
        moving, at = moving[feature[at] >= 0], at[feature[at] >= 0]
        goes_left = x[moving, feature[at]] <= threshold[at]
        node[moving] = np.where(goes_left, left[at], right[at])
    return threshold[node]


def _mlp(model, x, _):
    return layers(model["layers"], x)


def layers(stack: list[dict], x: np.ndarray) -> np.ndarray:
    for layer in stack:
        bias = decoded(layer["bias"], "<f4").astype(float)
        x = x @ decoded(layer["weights"], "<f4").astype(float).reshape(len(bias), -1).T + bias
        if layer["activation"] == "relu":
            x = np.maximum(x, 0)
    return x


def _gru(model, x, inputs):
    states = gru_states(model, inputs)
    return layers(model["head"]["layers"], np.hstack([states, x]))


def gru_states(model: dict, inputs: Inputs) -> np.ndarray:
    """The state after each row; all answers move on together. [rows, hidden]"""
    n = model["hidden"]
    given = inputs.table(model["input"], model["mean"], model["scale"])
    w_ih = decoded(model["w_ih"], "<f4").astype(float).reshape(3 * n, -1)
    w_hh = decoded(model["w_hh"], "<f4").astype(float).reshape(3 * n, n)
    b_ih, b_hh = (decoded(model[key], "<f4").astype(float) for key in ("b_ih", "b_hh"))
    lengths = np.diff(inputs.starts)
    order = np.argsort(-lengths, kind="stable")
    lengths, starts = lengths[order], inputs.starts[:-1][order]
    state = np.zeros((len(order), n))
    states = np.empty((inputs.rows, n))
    for t in range(int(lengths[0]) if len(lengths) else 0):
        active = int(np.searchsorted(-lengths, -t, side="left"))
        h = state[:active]
        i = given[starts[:active] + t] @ w_ih.T + b_ih
        s = h @ w_hh.T + b_hh
        reset = bins.sigmoid(i[:, :n] + s[:, :n])
        update = bins.sigmoid(i[:, n:2 * n] + s[:, n:2 * n])
        new = np.tanh(i[:, 2 * n:] + reset * s[:, 2 * n:])
        state[:active] = (1 - update) * new + update * h
        states[starts[:active] + t] = state[:active]
    return states


def _sum(model, x, inputs):
    return sum(model_logits(part, x, inputs) for part in model["parts"])


_KINDS = {
    "survival": _survival,
    "logistic": _logistic,
    "trees": _trees,
    "mlp": _mlp,
    "gru": _gru,
    "sum": _sum,
}
KINDS = tuple(_KINDS)
