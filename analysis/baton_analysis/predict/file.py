"""The predictor file: one line of JSON whose body is guarded by a checksum.

`{"format":"baton-eos-predictor","version":1,"sha256":"HEX","body":{…}}`; the checksum is of the
bytes of the body as they stand. The service reads the same file.
"""

import base64
import hashlib
import json
import os
import re
import tempfile

import numpy as np

from baton_analysis.errors import InputError
from baton_analysis.predict import bins
from baton_analysis.predict.evaluators import KINDS

VERSION = 1
LINKS_MAX = 40  # as Linux follows
_HEAD = re.compile(rb'\{"format":"baton-eos-predictor","version":(\d+),"sha256":"([0-9a-f]{64})",'
                   rb'"body":')
KEYS = ("model_fingerprint", "name", "made_by", "bins", "tail_mean", "probe", "features", "mean",
        "scale", "model", "calibration", "metrics")


def encoded(values: np.ndarray, kind: str) -> str:
    return base64.b64encode(np.ascontiguousarray(values, dtype=kind).tobytes()).decode("ascii")


def body_of(*, fingerprint: str, name: str, made_by: str, model: dict, tail_mean: float,
            features=(), mean=(), scale=(), probe=None, calibration=None, metrics=None) -> dict:
    return {
        "model_fingerprint": fingerprint,
        "name": name,
        "made_by": made_by,
        "bins": bins.UPPER.tolist(),
        "tail_mean": float(tail_mean),
        "probe": probe,
        "features": list(features),
        "mean": [float(value) for value in mean],
        "scale": [float(value) for value in scale],
        "model": model,
        "calibration": calibration,
        "metrics": metrics or {},
    }


def text_of(body: dict) -> str:
    text = json.dumps(body, separators=(",", ":"), allow_nan=False)
    digest = hashlib.sha256(text.encode("utf-8")).hexdigest()
    return (f'{{"format":"baton-eos-predictor","version":{VERSION},"sha256":"{digest}",'
            f'"body":{text}}}\n')


def write(path: str, body: dict):
    """The file is there when it is whole."""
    replace(path, text_of(body).encode("utf-8"))


def replace(path: str, content: bytes):
    """A link stays, and what it leads to is replaced. A pipe, a device or an open file is written in place, since a
    rename would put a file where it stood."""
    made = None
    try:
        if _written_in_place(path):
            with open(path, "wb") as file:
                file.write(content)
            return
        path = os.path.realpath(path)
        folder = os.path.dirname(path)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=os.path.basename(path) + ".",
                                         delete=False) as file:
            made = file.name
            file.write(content)
        os.chmod(made, 0o644)
        os.replace(made, path)
    except OSError as error:
        if made and os.path.exists(made):
            os.unlink(made)
        raise InputError(f"{path} cannot be written: {error}; give a folder that can") from error


def _written_in_place(path: str) -> bool:
    for _ in range(LINKS_MAX):
        path = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        # What looks like a link there stands for an open file, as /dev/stdout does.
        if path.startswith("/proc/"):
            return True
        if not os.path.islink(path):
            break
        path = os.path.join(os.path.dirname(path), os.readlink(path))
    return os.path.exists(path) and not os.path.isfile(path)


def read(path: str) -> dict:
    try:
        with open(path, "rb") as file:
            return parsed(file.read(), path)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}") from error


def parsed(content: bytes, path: str) -> dict:
    """The body."""
    head = _HEAD.match(content)
    if not head or not content.endswith(b"}\n"):
        raise InputError(f"{path} is no predictor file; expected one that `scripts/eos train` "
                         "wrote, whole")
    if int(head[1]) != VERSION:
        raise InputError(f"{path} has version {int(head[1])}, expected {VERSION}; train it again")
    text = content[head.end():-2]
    found = hashlib.sha256(text).hexdigest()
    if found != head[2].decode():
        raise InputError(f"{path} is damaged: the checksum of its body is {found}, expected "
                         f"{head[2].decode()}; copy or train it again")
    body = json.loads(text)
    missing = [key for key in KEYS if key not in body]
    if missing:
        raise InputError(f"{path} lacks {', '.join(missing)}; train it again")
    if body["bins"] != bins.UPPER.tolist():
        raise InputError(f"{path} has the bins {body['bins']}, expected {bins.UPPER.tolist()}; "
                         "train it again")
    if body["model"].get("kind") not in KINDS:
        raise InputError(f"{path} has a model of kind {body['model'].get('kind')!r}, expected one "
                         f"of {', '.join(KINDS)}")
    return body
