"""`scripts/eos train DATASET --model DIR --out FILE`: one predictor, fitted and calibrated."""

import argparse
import hashlib
import io
import os
import sys

import numpy as np

from baton_analysis.errors import InputError
from baton_analysis.predict import (bins, boundaries, calibration, evaluators, file, kinds, models,
                                    probe, survival)
from baton_analysis.predict.dataset import ROWS_MAX, Answer, Dataset
from baton_analysis.predict.evaluators import calibrated
from baton_analysis.predict.fitted import Fitted, targets
from baton_analysis.predict.frame import Frame, frame_of

TRAIN_ROWS_MAX = 400_000
KIND = "combination"


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    try:
        limit_threads(options.threads)
        dataset = Dataset(options.dataset, options.rows_max)
        flags = boundaries.flags_by_id(options.model)
        trained = Trained(dataset, flags, options)
        if options.calibrate:
            trained.calibrate(options.calibrate, options.out)
        else:
            trained.write(options.kind, options.seed, options.out)
    except InputError as error:
        print(f"eos train: {error}", file=sys.stderr)
        return 2
    return 0


def limit_threads(threads: int):
    """Of scikit-learn, before it is imported."""
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))


def recipe(dataset: Dataset, options) -> dict:
    """What trained files follow from, their kind and seed apart."""
    found = {"model_fingerprint": dataset.fingerprint, "probe_width": dataset.probe_width,
             "epochs": options.epochs, "trees": options.trees}  # yapf: disable
    for name, limit in (("train", options.train_rows_max), ("validation",
                                                            options.train_rows_max // 2)):
        answers = chosen_answers(dataset.of(name), limit, options.balance)
        found[f"{name}_answers"] = len(answers)
        found[f"{name}_rows"] = sum(answer.length - 1 for answer in answers)
        lengths = ((answer.request_id, answer.length) for answer in answers)
        digest = hashlib.blake2b(repr(sorted(lengths)).encode(), digest_size=8)
        found[f"{name}_digest"] = digest.hexdigest()
    return found


class Trained:
    """The splits to train on, which all kinds share."""

    def __init__(self, dataset: Dataset, flags: np.ndarray, options):
        self._dataset, self._flags, self._options = dataset, flags, options
        chosen = lambda split, limit: frame_of(
            dataset, chosen_answers(dataset.of(split), limit, options.balance), flags)
        self.train = chosen("train", options.train_rows_max)
        self.valid = chosen("validation", options.train_rows_max // 2)
        for name, frame in (("train", self.train), ("validation", self.valid)):
            if not frame.rows or not frame.ends.natural.any():
                raise InputError(
                    f"{dataset.folder}: no answer of the split {name!r} ended by itself; "
                    "collect more")
        self.tail_mean = bins.tail_mean(self.train.ends)

    def fit(self, kind: str, seed: int) -> tuple[Fitted, list[dict] | None]:
        """A model and its calibration; M0 and M1 are what they are, uncalibrated."""
        fitted = kinds.fit(kind, self.train, self.valid, seed, self._options)
        if kind in ("survival", "thresholds"):
            return fitted, None
        return fitted, self._curves(fitted.logits(self.valid))

    def _curves(self, logits: np.ndarray) -> list[dict]:
        prior = kinds.prior(self.train)["classes"][survival.DEFAULT]
        otherwise = survival.mean_logits(prior, self.valid.steps)
        return calibration.fit(logits, targets(self.valid), otherwise)

    def write(self, kind: str, seed: int, out: str):
        """A predictor file, or of a kind that is not served what it says of the other splits."""
        fitted, curves = self.fit(kind, seed)
        if fitted.parts is None:
            self._write_said(kind, seed, fitted, curves, out)
        else:
            self._write_file(kind, seed, fitted, curves, out)
        print(
            f"{kinds.KINDS[kind].title}, seed {seed}: {self.train.rows:,} rows of "
            f"{len(self.train.answers):,} answers -> {out}", flush=True)

    def calibrate(self, path: str, out: str):
        """The predictor of a file as it is, with calibration curves of this data set."""
        body = models.body_for(path, self._dataset)
        curves = self._curves(evaluators.logits(body | {"calibration": None}, self.valid.inputs()))
        file.write(out, body | {
            "calibration": curves,
            "tail_mean": self.tail_mean,
            "metrics": body["metrics"] | {"calibration_rows": self.valid.rows},
        })  # yapf: disable
        print(f"{body['name']} of {path}: calibrated on {self.valid.rows:,} rows -> {out}",
              flush=True)

    def _write_file(self, kind, seed, fitted, curves, out):
        used = fitted.parts["features"]
        with_probe = any("probe[" in name for name in used)
        file.write(out, file.body_of(
            fingerprint=self._dataset.fingerprint, name=kind, made_by=f"scripts/eos train --seed {seed}",
            tail_mean=self.tail_mean, calibration=curves,
            probe=probe.of_dataset(self._dataset, self._options.probe) if with_probe else None,
            metrics={"train_rows": self.train.rows, "train_answers": len(self.train.answers),
                     "valid_rows": self.valid.rows, "seed": seed}, **fitted.parts))  # yapf: disable

    def _write_said(self, kind, seed, fitted, curves, out):
        answers = self._dataset.of("validation", "test", "held_out")
        frame = frame_of(self._dataset, answers, self._flags)
        write_said(out, kind, seed, frame, calibrated(fitted.logits(frame), curves), self.tail_mean)


def write_said(path: str, kind: str, seed: int, frame: Frame, logits: np.ndarray, tail_mean: float):
    """What a model says of the rows of answers, by request id."""
    content = io.BytesIO()
    np.savez_compressed(content, kind=kind, seed=seed, tail_mean=tail_mean, starts=frame.starts,
                        ids=np.array([answer.request_id for answer in frame.answers]),
                        logits=logits.astype(np.float32))
    file.replace(path, content.getvalue())


def chosen_answers(answers: list[Answer], rows_max: int, balance: str) -> list[Answer]:
    """Answers with at most so many rows: a part of all, or of short families all and of others a part.

    A family is known before its answers are, so that to take more of one, unlike weights by
    length, says nothing about how its answers end.
    """
    if balance == "none":
        return some_answers(answers, rows_max)
    rows = {}
    for answer in answers:
        rows[answer.family] = rows.get(answer.family, 0) + answer.length
    whole = whole_families(rows, rows_max)
    rest = [answer for answer in answers if answer.family not in whole]
    left = rows_max - sum(rows[family] for family in whole)
    taken = {answer.request_id for answer in some_answers(rest, left)}
    return [
        answer for answer in answers if answer.family in whole or answer.request_id in taken
    ]


def whole_families(rows: dict[str, int], rows_max: int) -> set[str]:
    """Those that have no more than an even share of what the shorter ones leave of `rows_max`."""
    whole, left = set(), rows_max
    for family, own in sorted(rows.items(), key=lambda item: item[1]):
        if own > left // (len(rows) - len(whole)):
            break
        whole.add(family)
        left -= own
    return whole


def some_answers(answers: list[Answer], rows_max: int) -> list[Answer]:
    """Answers with at most so many rows, spread evenly over all."""
    rows = sum(answer.length for answer in answers)
    if rows <= rows_max:
        return answers
    order = np.random.default_rng(0).permutation(len(answers))
    ends = np.cumsum([answers[number].length for number in order])
    return [answers[number] for number in sorted(order[ends <= rows_max].tolist())]


def add_training_options(parser: argparse.ArgumentParser):
    parser.add_argument("--model", metavar="DIR", required=True,
                        help="folder of the model, for its tokenizer.json")
    parser.add_argument(
        "--probe", metavar="FILE", help="the probe that the projections were made with "
        "(default: DATASET/probe.json)")
    parser.add_argument("--epochs", type=int, default=20, help="of networks, at most")
    parser.add_argument("--trees", type=int, default=60, help="per bin")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rows-max", type=int, default=ROWS_MAX,
                        help="held in memory; of a larger set some prompts are left out")
    parser.add_argument("--train-rows-max", type=int, default=TRAIN_ROWS_MAX)
    parser.add_argument(
        "--balance", choices=("none", "families"), default="none",
        help="which answers these rows are of: a part of all, or of families with less "
        "than an even share all, and a part of the others")


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="eos train", description=__doc__)
    parser.add_argument("dataset", metavar="DATASET", help="what `scripts/eos dataset` wrote")
    parser.add_argument(
        "--out", metavar="FILE", required=True,
        help="the predictor file; of a kind that is only compared, what it says of "
        "the other splits")
    parser.add_argument("--kind", choices=tuple(kinds.KINDS), default=KIND)
    parser.add_argument("--calibrate", metavar="FILE",
                        help="trains nothing: this predictor file with new calibration curves")
    parser.add_argument("--seed", type=int, default=1)
    add_training_options(parser)
    return parser.parse_args(arguments)
