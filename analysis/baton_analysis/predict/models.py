"""What is judged: predictor files, what models that are not served said, and M0 and M1."""

import os
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from baton_analysis.errors import InputError
from baton_analysis.predict import bins, evaluators, file, kinds, probe, survival
from baton_analysis.predict.dataset import Answer, Dataset
from baton_analysis.predict.frame import Frame

BASELINES = ("survival", "thresholds")


class Model(NamedTuple):
    kind: str
    seed: int
    tail_mean: float
    logits: Callable[[Frame], np.ndarray]  # calibrated
    baseline: bool = False

    @property
    def title(self) -> str:
        kind = kinds.KINDS.get(self.kind)
        title = kind.title if kind else self.kind
        if self.baseline or self.kind not in BASELINES:
            return title
        return f"{title.split()[0]} of a file"


def baselines(answers: list[Answer], train: Frame) -> list[Model]:
    """M0 of all training answers, M1 of those of a frame."""
    tail = bins.tail_mean(train.ends)
    lengths = np.array([answer.length for answer in answers])
    natural = np.array([answer.natural for answer in answers])
    model = survival.fit(lengths, natural, [sampling_class(answer) for answer in answers])
    m0 = lambda frame: survival.logits(model, frame.steps, [
        sampling_class(answer) for answer in frame.answers], frame.starts)  # yapf: disable
    m1 = kinds.fit("thresholds", train, train, 0, None).logits
    return [Model(kind, 0, tail, logits, True) for kind, logits in zip(BASELINES, (m0, m1))]


def sampling_class(answer: Answer) -> str:
    """The class of M0 where it is judged: it is to know as much as can be known without rows."""
    return f"{answer.family}, T {answer.temperature:g}, top-p {answer.top_p:g}"


def of_file(path: str, dataset: Dataset) -> Model:
    try:
        with open(path, "rb") as content:
            archive = content.read(2) == b"PK"
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    return _said(path) if archive else _served(path, dataset)


def _served(path: str, dataset: Dataset) -> Model:
    body = body_for(path, dataset)
    seed = body["metrics"].get("seed", 0)
    return Model(body["name"], seed, body["tail_mean"],
                 lambda frame: evaluators.logits(body, frame.inputs()))


def body_for(path: str, dataset: Dataset) -> dict:
    """Of a predictor file that can be asked about the rows of this data set."""
    body = file.read(path)
    if dataset.fingerprint and body["model_fingerprint"] != dataset.fingerprint:
        raise InputError(
            f"{path} was trained on the model {body['model_fingerprint']!r}, the data set is of "
            f"{dataset.fingerprint!r}; expected the same")
    if any("probe[" in name for name in body["features"]):
        _check_probe(path, body["probe"], dataset)
    return body


def _check_probe(path: str, wanted: dict, dataset: Dataset):
    """Products of other directions would be taken for its own."""
    if not dataset.probe_width:
        raise InputError(f"{path} needs a probe, and {dataset.folder} has no projections")
    there = {"dims": dataset.probe_width}
    if os.path.exists(os.path.join(dataset.folder, "probe.json")):
        there = probe.of_dataset(dataset, None)
    if any(wanted[key] != there[key] for key in there):
        raise InputError(f"{path} reads {wanted['dims']} directions, and the projections of "
                         f"{dataset.folder} are of {there['dims']} others; give a data set that "
                         "was recorded with the same probe")


def _said(path: str) -> Model:
    """Its answers are those of the data set that it was trained on."""
    try:
        with np.load(path) as archive:
            said = {key: archive[key] for key in archive.files}
        starts, table = said["starts"], said["logits"]
        place = {str(name): number for number, name in enumerate(said["ids"])}
        kind, seed, tail = str(said["kind"]), int(said["seed"]), float(said["tail_mean"])
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{path} is not what `scripts/eos train` writes: {error}") from error

    def logits(frame: Frame) -> np.ndarray:
        found = np.empty((frame.rows, bins.COUNT))
        for number, answer in enumerate(frame.answers):
            at = place.get(answer.request_id)
            own = slice(frame.starts[number], frame.starts[number + 1])
            rows = None if at is None else table[starts[at]:starts[at + 1]]
            if rows is None or len(rows) != own.stop - own.start:
                raise InputError(f"{path} does not speak of {answer.request_id}; give the data set "
                                 "that it was trained on")
            found[own] = rows
        return found

    return Model(kind, seed, tail, logits)
