"""Writes what the service's evaluators are held to: make_vectors.py [FOLDER].

Per kind of model a file: a predictor of random weights, the rows of an answer, and what the Python
evaluators make of them. Without a folder, tests/common/eos/predict/vectors.
"""

import json
import os
import pathlib
import sys

import numpy as np

from baton_analysis.predict import bins, evaluators, features, file
from baton_analysis.predict.reference import Request, Row

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "common/eos/predict/vectors"
SOME = ("step", "log_step", "lo", "so", "entropy", "lo_mean8", "lo_std32", "lo_slope32",
        "since_boundary", "after_lo", "after_rise", "repeat4", "cum_hazard", "temperature")
GRU_INPUT = ("lo", "so", "entropy", "top1", "boundary", "log_rank")
PROBE_WIDTH = 4


def brief(value, digits: int = 10) -> float:
    """Figures are compared within 1e-5; the files shall be small."""
    return float(f"{value:.{digits}g}")


def random_rows(rng, count: int, probe: bool) -> list[Row]:
    """Rows of every sort: sure and hopeless ones, missing figures, loops, boundaries in a row."""
    rows = []
    for t in range(1, count + 1):
        prob = float(10**rng.uniform(-12, 0))
        boundary = bool(rng.random() < 0.25)
        line = boundary and bool(rng.random() < 0.4)
        looping = t > count // 2
        token = (t * 7) % 12 if looping else int(rng.integers(3, 40))
        rows.append(
            Row(brief(np.log(prob), 6), brief(min(1.0, prob * rng.uniform(0.2, 1.5)), 6),
                brief(rng.uniform(0, 6), 4), brief(rng.uniform(0.01, 1), 4),
                int(rng.integers(1, 2000)), token, boundary, line,
                tuple(brief(v, 5) for v in rng.normal(size=PROBE_WIDTH)) if probe else ()))
    rows[1] = rows[1]._replace(eos_logprob=None, eos_prob_sampling=0.0)
    rows[2] = rows[2]._replace(eos_logprob=0.0, eos_prob_sampling=1.0, eos_rank=1)
    rows[3] = rows[3]._replace(eos_logprob=-80.0, eos_rank=0, boundary=True, line=False)
    rows[4] = rows[4]._replace(boundary=True, line=True)
    rows[5] = rows[5]._replace(entropy=None, top1_prob=None, eos_prob_sampling=None)
    return rows


def layer(rng, outs, ins, activation):
    return {
        "weights": file.encoded(rng.normal(size=(outs, ins)) / np.sqrt(ins), "<f4"),
        "bias": file.encoded(rng.normal(size=outs) * 0.3 - 0.5, "<f4"),
        "activation": activation,
    }


def random_tree(rng, names: int) -> dict:
    """Of depth 3, in the order in which it is walked; one side ends early."""
    feature, threshold, left, right = [], [], [], []

    def grow(depth):
        at = len(feature)
        leaf = depth == 3 or (depth == 2 and rng.random() < 0.3)
        feature.append(-1 if leaf else int(rng.integers(names)))
        threshold.append(float(rng.normal()))
        left.append(-1)
        right.append(-1)
        if not leaf:
            left[at], right[at] = grow(depth + 1), grow(depth + 1)
        return at

    grow(0)
    return {
        "f": file.encoded(feature, "<i2"),
        "t": file.encoded(threshold, "<f8"),
        "l": file.encoded(left, "<i2"),
        "r": file.encoded(right, "<i2"),
    }


def survival_model(rng):
    classes = {}
    for name, steps in (("all", [1, 2, 3, 10, 20, 50,
                                 200]), ("chat", [5, 6, 7, 40]), ("sure", [1, 2, 30, 31])):
        classes[name] = {"steps": steps, "hazard": rng.uniform(0, 0.1, len(steps)).tolist()}
    classes["sure"]["hazard"][-1] = 1.0
    return {"kind": "survival", "classes": classes, "default": "all"}


def logistic_model(rng, names):
    return {
        "kind": "logistic",
        "weights": file.encoded(rng.normal(size=(bins.COUNT, names)) * 0.3, "<f8"),
        "bias": rng.normal(size=bins.COUNT).tolist(),
    }


def mlp_model(rng, names):
    return {
        "kind":
            "mlp",
        "layers": [
            layer(rng, 8, names, "relu"),
            layer(rng, 6, 8, "relu"),
            layer(rng, bins.COUNT, 6, "none")
        ],
    }


def trees_model(rng, names):
    return {
        "kind": "trees",
        "bins": [[random_tree(rng, names) for _ in range(5)] for _ in range(bins.COUNT)],
        "base": rng.normal(size=bins.COUNT).tolist(),
    }


def gru_model(rng, names):
    n = 8
    return {
        "kind": "gru",
        "hidden": n,
        "input": list(GRU_INPUT),
        "mean": [-10, -12, 2, 0.5, 0.2, 3],
        "scale": [8, 9, 1.5, 0.3, 0.4, 2],
        "w_ih": file.encoded(rng.normal(size=(3 * n, len(GRU_INPUT))) * 0.5, "<f4"),
        "w_hh": file.encoded(rng.normal(size=(3 * n, n)) * 0.5, "<f4"),
        "b_ih": file.encoded(rng.normal(size=3 * n) * 0.2, "<f4"),
        "b_hh": file.encoded(rng.normal(size=3 * n) * 0.2, "<f4"),
        "head": {
            "layers": [layer(rng, 8, n + names, "relu"),
                       layer(rng, bins.COUNT, 8, "none")]
        },
    }


def cases(rng):
    """Name -> (model, features, length class, rows, whether it has a probe, calibrated)."""
    every = features.NAMES
    probe = [f"{kind}[{i}]" for kind in ("probe", "first_probe") for i in range(PROBE_WIDTH)]
    few = SOME[:6]
    return {
        "survival": (survival_model(rng), (), "chat", 40, False, False),
        "survival_certain": (survival_model(rng), (), "sure", 34, False, False),
        "survival_default": (survival_model(rng), (), "unheard of", 20, False, True),
        "logistic": (logistic_model(rng, len(every)), every, "", 80, False, True),
        "trees": (trees_model(rng, len(SOME)), SOME, "", 50, False, False),
        "mlp": (mlp_model(rng,
                          len(few) + len(probe)), (*few, *probe), "", 40, True, True),
        "gru": (gru_model(rng, len(few)), few, "", 40, False, True),
        "sum": ({
            "kind": "sum",
            "parts": [survival_model(rng), mlp_model(rng, len(few))]
        }, few, "chat", 40, False, True),
    }


def calibration(rng):
    return [{
        "x": np.sort(rng.normal(size=4) * 2).tolist(),
        "y": np.sort(rng.normal(size=4) * 2).tolist()
    } for _ in range(bins.COUNT)]


def vector(rng, name, model, names, length_class, count, with_probe, calibrate) -> dict:
    rows = random_rows(rng, count, with_probe)
    request = Request(23, 0.8, 0.95, length_class)
    table = features.columns(features.Signals.of_rows(rows), request)
    inputs = evaluators.Inputs(table, np.array([0, count]), [length_class])
    raw = np.column_stack([table[key] for key in names]) if names else np.zeros((count, 0))
    plain = model["kind"] == "trees"
    probe = {
        "layer": None,
        "dims": PROBE_WIDTH,
        "hidden": 6,
        "directions": file.encoded(rng.normal(size=(PROBE_WIDTH, 6)), "<f4"),
        "biases": file.encoded(rng.normal(size=PROBE_WIDTH), "<f4"),
    }
    body = file.body_of(fingerprint="0123456789abcdef", name=name, made_by="make_vectors.py",
                        model=model, tail_mean=1500.5, features=names,
                        mean=np.zeros(len(names)) if plain else raw.mean(axis=0),
                        scale=np.ones(len(names)) if plain else np.maximum(raw.std(axis=0), 0.5),
                        probe=probe if with_probe else None,
                        calibration=calibration(rng) if calibrate else None)
    found = evaluators.estimates(body, inputs)
    used = sorted({*names, *model.get("input", ()), "step"}, key=list(table).index)
    return {
        "predictor":
            file.text_of(body),
        "request": {
            "prompt_length": request.prompt_length,
            "temperature": request.temperature,
            "top_p": request.top_p,
            "class": length_class
        },
        "rows": [row._asdict() for row in rows],
        "features": [{
            key: brief(table[key][at]) for key in used
        } for at in range(count)],
        "estimates": [{
            "within": [brief(chance) for chance in found.within[at]],
            "expected_remaining": brief(found.expected_remaining[at]),
            "p50": brief(found.p50[at]),
            "p90": brief(found.p90[at])
        } for at in range(count)],
    }


def texts() -> dict[str, str]:
    rng = np.random.default_rng(17)
    made = {name: vector(rng, name, *case) for name, case in cases(rng).items()}
    return {name: json.dumps(case, allow_nan=False) + "\n" for name, case in made.items()}


def main(folder: str):
    os.makedirs(folder, exist_ok=True)
    for name, text in texts().items():
        with open(os.path.join(folder, f"{name}.json"), "w", encoding="utf-8") as out:
            out.write(text)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else str(FOLDER))
