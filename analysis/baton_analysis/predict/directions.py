"""`scripts/eos directions DATASET --model DIR --out FILE`: which directions of the hidden state a
probe should have, chosen by what foretells ends.

Logistic hazards are fitted per family on the whole state of a row and on that of its answer's first
row. Their weights say which directions matter; the leading ones of all families together are kept.
"""

import argparse
import base64
import hashlib
import json
import sys

import numpy as np
import torch

from baton_analysis.errors import InputError
from baton_analysis.predict import arms, bins, file
from baton_analysis.predict.dataset import ROWS_MAX, Answer, Dataset
from baton_analysis.predict.fitted import some, targets
from baton_analysis.predict.frame import Frame
from baton_analysis.predict.states import States
from baton_analysis.predict.train import chosen_answers

DIMS_MAX = 64  # of a probe file
HORIZON = 64  # bins up to here: beyond, only the length and the prompt's wish tell
FAMILY_ROWS_MIN, FAMILY_ROWS_MAX = 5_000, 80_000
STEPS, RATE, DECAY = 100, 1e-2, 1e-2


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    try:
        torch.set_num_threads(options.threads)
        dataset = Dataset(options.dataset, options.rows_max)
        states = States(dataset, options.model)
        answers = chosen_answers(dataset.of("train"), options.train_rows_max, "families")
        frame = bare_frame(answers)
        table = states.of(frame)
        states.check(frame, table)
        found = choose(frame, table, options.dims)
        write(options.out, found, dataset.fingerprint)
        print(f"{len(found)} directions of {found.shape[1]}, out of {frame.rows:,} rows of "
              f"{len(frame.answers):,} answers -> {options.out}")
    except InputError as error:
        print(f"eos directions: {error}", file=sys.stderr)
        return 2
    return 0


def bare_frame(answers: list[Answer]) -> Frame:
    """Rows and ends without features."""
    answers = [answer for answer in answers if answer.length > 1]
    rows = sum(answer.length - 1 for answer in answers)
    return Frame((), np.empty((rows, 0), dtype=np.float32), answers)


def choose(frame: Frame, states: np.ndarray, dims: int, seed: int = 1) -> np.ndarray:
    """[at most dims, hidden], float32. Products of these states have a spread of about 1."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    sample = some(np.arange(frame.rows), FAMILY_ROWS_MAX, rng)
    spread = np.maximum(states[sample].astype(np.float32).std(axis=0), 1e-3)
    weights = []
    for rows in _groups(frame):
        own = _weights(frame, states, some(rows, FAMILY_ROWS_MAX, rng)) * spread
        # Every family says its directions with one voice, however sharp its ends are.
        weights.append(own / max(np.linalg.norm(own, 2), 1e-6))
    if not weights:
        raise InputError("no answer ended by itself; collect more")
    _, strength, directions = np.linalg.svd(np.vstack(weights), full_matrices=False)
    kept = min(dims, int((strength > 1e-6 * strength[0]).sum()))
    return (directions[:kept] / spread).astype(np.float32)


def _groups(frame: Frame) -> list[np.ndarray]:
    """Rows of each family; the small ones are taken together, and the endless ones left out."""
    families = np.array(frame.families)[frame.answer_of]
    large, small = [], []
    for name in sorted(set(families.tolist()) - {arms.RUNAWAY}):
        rows = np.flatnonzero(families == name)
        if frame.ends.natural[rows].any():
            (large if len(rows) >= FAMILY_ROWS_MIN else small).append(rows)
    return large + ([np.sort(np.concatenate(small))] if small else [])


def _weights(frame: Frame, states: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """[2 * bins, hidden]: of a unit of each number of the row's state, then of the first row's."""
    first = frame.starts[:-1][frame.answer_of[rows]]
    x = torch.from_numpy(np.hstack([states[rows], states[first]]).astype(np.float32))
    mean, scale = x.mean(0), x.std(0).clamp(min=1e-3)
    length = torch.from_numpy(np.log(frame.steps[rows])).float()[:, None]
    x = torch.cat([(x - mean) / scale, (length - length.mean()) / length.std().clamp(min=1e-3)], 1)
    table = targets(frame)[rows][:, bins.UPPER <= HORIZON]
    known, outcomes = (torch.from_numpy(part.astype(np.float32))
                       for part in (~np.isnan(table), np.nan_to_num(table)))  # yapf: disable
    model = torch.nn.Linear(x.shape[1], table.shape[1])
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY)
    for _ in range(STEPS):
        optimiser.zero_grad()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model(x), outcomes,
                                                                    reduction="none")
        ((loss * known).sum() / known.sum()).backward()
        optimiser.step()
    found = (model.weight.detach()[:, :-1] / scale).numpy()
    return np.vstack(np.split(found, 2, axis=1))


def write(path: str, directions: np.ndarray, fingerprint: str):
    """A probe file of docs/eos-probes.md, of the kind `linear`, with biases of 0."""
    payload = np.concatenate([directions.ravel(), np.zeros(len(directions))]).astype("<f4").tobytes()
    content = {
        "format": "baton-probe", "version": 1, "kind": "linear", "model_fingerprint": fingerprint,
        "hidden": directions.shape[1], "dims": len(directions),
        "payload": base64.b64encode(payload).decode(), "sha256": hashlib.sha256(payload).hexdigest()
    }  # yapf: disable
    file.replace(path, json.dumps(content).encode() + b"\n")


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="eos directions", description=__doc__)
    parser.add_argument("dataset", metavar="DATASET", help="what `scripts/eos dataset` wrote")
    parser.add_argument("--model", metavar="DIR", required=True,
                        help="folder of the model that it was made with")
    parser.add_argument("--out", metavar="FILE", required=True, help="the probe file")
    parser.add_argument("--dims", type=int, default=32, help=f"directions, at most {DIMS_MAX}")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rows-max", type=int, default=ROWS_MAX,
                        help="held in memory; of a larger set some prompts are left out")
    parser.add_argument("--train-rows-max", type=int, default=200_000,
                        help="of the training split, of all families alike")
    options = parser.parse_args(arguments)
    if not 1 <= options.dims <= DIMS_MAX:
        parser.error(f"--dims is {options.dims}; expected 1 to {DIMS_MAX}")
    return options
