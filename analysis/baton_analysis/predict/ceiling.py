"""The ceiling: prefixes of test answers that were continued many times. One half of the
continuations foretells the other as well as anything can that knows the model itself."""

import json
import os
from typing import NamedTuple

import numpy as np

from baton_analysis.errors import InputError
from baton_analysis.predict import bins, figures
from baton_analysis.predict.dataset import Dataset
from baton_analysis.predict.figures import Drawings
from baton_analysis.predict.frame import Frame


class Prefixes(NamedTuple):
    """Rows of a frame whose continuations are known."""

    rows: np.ndarray
    after: np.ndarray  # [prefixes, continuations]: tokens to go
    natural: np.ndarray  # likewise; False: more than `after`
    room: np.ndarray  # [prefixes, 1]: tokens that the limit left


def read(dataset: Dataset, frame: Frame) -> Prefixes | None:
    """Of ceiling.jsonl, lines {request_id, at_step, samples: tokens to go of each continuation,
    censored: which of them ran to their limit}: those in the frame."""
    path = os.path.join(dataset.folder, "ceiling.jsonl")
    if not os.path.exists(path):
        return None
    place = {answer.request_id: number for number, answer in enumerate(frame.answers)}
    rows, after, natural = [], [], []
    try:
        with open(path, encoding="utf-8") as file:
            for line in file:
                entry = json.loads(line)
                answer, step = place.get(entry["request_id"]), int(entry["at_step"])
                if answer is None or not 1 <= step < frame.answers[answer].length:
                    continue
                rows.append(frame.starts[answer] + step - 1)
                after.append(entry["samples"])
                natural.append([not cut for cut in entry["censored"]])
        count = min((len(values) for values in after), default=0)
        table = lambda values, kind: np.array([some[:count] for some in values], dtype=kind)
        rows = np.array(rows, dtype=int)
        found = Prefixes(rows, table(after, float), table(natural, bool),
                         frame.ends.room[rows][:, None])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} cannot be read: {error!r}; make it again with "
                         "`scripts/eos dataset`") from error
    return found if len(rows) and count > 1 else None


def compare(frame: Frame, prefixes: Prefixes, chances: dict[str, np.ndarray], horizon: int) -> dict:
    """`chances`: P(end ≤ horizon) of each model at the prefixes, M0's as "survival". Per model and
    for the ceiling AUROC and Brier on the second half of the continuations; the share of the skill
    between M0 and the ceiling."""
    half = prefixes.after.shape[1] // 2
    known, ends = bins.Ends(prefixes.after, prefixes.natural, prefixes.room).within(horizon)
    first, later = slice(0, half), slice(half, None)
    seen, ended = known[:, first].sum(axis=1), ends[:, first].sum(axis=1)
    # Ranks: between prefixes none of whose continuations ended the better known one is lower.
    ceiling = (ended + 0.5) / (seen + 1)
    # Without two continuations nothing is known of how far a frequency is off.
    place, column = np.nonzero(known[:, later] & (seen > 1)[:, None])
    happened = ends[:, later][place, column]
    prompts = frame.prompts[frame.answer_of[prefixes.rows]]
    drawings = Drawings(prompts[place])
    rows = np.arange(len(place))
    # The frequency of some continuations is off by chance: its Brier is too high by its variance,
    # of which this is the unbiased estimate.
    share = ended[place] / seen[place]
    noise = share * (1 - share) / (seen[place] - 1)
    errors = {name: drawings.sums(rows, (p[place] - happened)**2) for name, p in chances.items()}
    best = drawings.sums(rows, (share - happened)**2 - noise)
    found = {
        "ceiling": {
            "auroc": figures.ranking(drawings, rows, ceiling[place], happened)[0],
            "brier": figures.interval(best, drawings.sums(rows, np.ones(len(rows))))
        }
    }
    # Where all ends, or nothing, no skill lies between M0 and the ceiling.
    room = errors["survival"] - best if happened.any() and not happened.all() else 0.0
    for name, p in chances.items():
        found[name] = {
            "auroc": figures.ranking(drawings, rows, p[place], happened)[0],
            "skill_of_ceiling": figures.interval(errors["survival"] - errors[name], room)
        }
    return found
