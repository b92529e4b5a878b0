"""The directions that a predictor's probe features are products with, for its file."""

import base64
import json
import os

import numpy as np

from baton_analysis.errors import InputError
from baton_analysis.predict import file
from baton_analysis.predict.dataset import Dataset


def of_dataset(dataset: Dataset, path: str | None) -> dict:
    """`probe` of a predictor file, out of the probe file that the projections were made with."""
    path = path or os.path.join(dataset.folder, "probe.json")
    try:
        with open(path, encoding="utf-8") as content:
            found = json.load(content)
        dims, hidden, layer = int(found["dims"]), int(found["hidden"]), found.get("layer")
        numbers = np.frombuffer(base64.b64decode(found["payload"], validate=True), dtype="<f4")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} cannot be read as a probe file: {error!r}; name with --probe the "
                         "one that the service had when the projections were made") from error
    # A trained probe has a bias per direction behind them, a random one has none.
    if dims != dataset.probe_width or len(numbers) not in (dims * hidden, dims * (hidden + 1)):
        raise InputError(f"{path} has {dims} directions of {hidden}, the projections have "
                         f"{dataset.probe_width}; name with --probe the one that made them")
    biases = numbers[dims * hidden:]
    return {
        "layer": layer,
        "dims": dims,
        "hidden": hidden,
        "directions": file.encoded(numbers[:dims * hidden], "<f4"),
        "biases": file.encoded(biases if len(biases) else np.zeros(dims), "<f4")
    }
