"""What `scripts/eos dataset` or `baton eos collect` wrote: answers with their rows, in memory.

A folder that `baton eos collect` filled has manifest.json, rows.jsonl (the EOS log's rows),
requests.jsonl (one line per request: family, prompt, sampling) and where it was asked for
projections.f32. A data set is one such folder, or several in a folder, its arms; beside them
split.jsonl (one line per prompt) and ceiling.jsonl, where there are any.
"""

import hashlib
import json
import os
from array import array
from dataclasses import dataclass
from operator import itemgetter

import numpy as np

from baton_analysis.errors import InputError

FIGURES = ("eos_logprob", "eos_prob_sampling", "entropy", "top1_prob", "eos_rank")
_KEYS = ("step", "current_token_id", *FIGURES)
_figures_of = itemgetter(*_KEYS)
ROWS_MAX = 2_500_000  # held; 52 bytes each
OPEN_ROWS_MAX = 4_000_000
SPLITS = ("train", "validation", "test", "held_out")
NO_LIMIT = 2**31 - 1
CEILING = "ceiling"  # a folder of continuations, which are no answers of their own


@dataclass(slots=True)
class Answer:
    """One request up to its natural end, or up to where it was cut off."""

    request_id: str
    family: str
    prompt: str  # its name, the same of all requests with this prompt
    split: str
    seed: int
    temperature: float
    top_p: float
    max_tokens: int
    prompt_length: int
    natural: bool  # else it would have had at least `length` tokens
    finish_reason: str
    figures: np.ndarray  # [length, FIGURES]; NaN: none
    tokens: np.ndarray  # [length]
    part: "Part"
    rows: np.ndarray | None  # [length]: their places in rows.jsonl, where projections are there

    @property
    def length(self) -> int:
        return len(self.tokens)


class Dataset:

    def __init__(self, folder: str, rows_max: int = ROWS_MAX):
        self.folder = folder
        splits = Splits(os.path.join(folder, "split.jsonl"))
        parts = [Part(path, splits) for path in _parts(folder)]
        _name_prompts([entry for part in parts for entry in part.requests.values()], splits)
        self.fingerprint = _the_same([part.fingerprint for part in parts], folder, "models")
        self.probe_width = _the_same([part.probe_width for part in parts], folder,
                                     "widths of projections")
        kept = Prompts(parts, rows_max)
        self.left_out_prompts = kept.left_out
        self.left_out_requests = 0  # of whose rows none, or not all, are there
        self.answers: list[Answer] = []
        for part in parts:
            wanted = {key: entry for key, entry in part.requests.items() if kept.has(entry)}
            before = len(self.answers)
            self.answers.extend(part.answers(wanted))
            self.left_out_requests += len(wanted) - (len(self.answers) - before)
        if not self.answers:
            raise InputError(f"{folder} has no whole answer; give a folder that `scripts/eos "
                             "dataset` filled")

    def of(self, *splits: str) -> list[Answer]:
        return [answer for answer in self.answers if answer.split in splits]

    def probe(self, answer: Answer) -> np.ndarray | None:
        """[length, probe_width]"""
        return None if answer.rows is None else np.array(answer.part.projections[answer.rows])


class Prompts:
    """Of a set that is too large, some prompts with all their answers."""

    def __init__(self, parts: list["Part"], rows_max: int):
        requests = [entry for part in parts for entry in part.requests.values()]
        rows = sum(entry["output_length"] for entry in requests)
        self._share = rows_max / rows if rows > rows_max else 1
        prompts = {entry["prompt"] for entry in requests}
        self.left_out = sum(not self._keeps(prompt) for prompt in prompts)

    def has(self, request: dict) -> bool:
        return self._keeps(request["prompt"])

    def _keeps(self, prompt: str) -> bool:
        return self._share >= 1 or _fraction("kept", prompt) < self._share


class Part:
    """One folder that `baton eos collect` filled."""

    def __init__(self, folder: str, splits: "Splits"):
        self.folder = folder
        self._splits = splits
        manifest = _manifest(os.path.join(folder, "manifest.json"))
        self.fingerprint = str(manifest["model"]["fingerprint"])
        self.projections = self._projections((manifest.get("projections") or {}).get("width"))
        self.probe_width = 0 if self.projections is None else self.projections.shape[1]
        self.requests = self._requests()  # by id

    def _projections(self, width: int | None):
        """[rows of rows.jsonl, width], mapped; None: there are none."""
        path = os.path.join(self.folder, "projections.f32")
        if not width:
            return None
        try:
            numbers = np.memmap(path, dtype="<f4", mode="r")
        except (OSError, ValueError) as error:
            raise InputError(f"{path} cannot be read: {error}; collect it again") from error
        if len(numbers) % width:
            raise InputError(f"{path} has {4 * len(numbers)} bytes, expected a multiple of "
                             f"{4 * width} (a width of {width}); collect it again")
        return numbers.reshape(-1, width)

    def _requests(self) -> dict[str, dict]:
        path = os.path.join(self.folder, "requests.jsonl")
        found = {}
        for number, entry in _lines(path):
            try:
                entry = {
                    key: entry.get(key) for key in _REQUEST_KEYS
                } | {
                    "prompt_sha256": str(entry.get("prompt_sha256") or ""),
                    "output_length": int(entry["output_length"]),
                    "request_id": str(entry["request_id"])
                }
            except (KeyError, TypeError, AttributeError, ValueError) as error:
                raise InputError(f"{path}, line {number}: {error!r}; expected a request with "
                                 f"{', '.join(_REQUEST_KEYS)}") from error
            found[entry["request_id"]] = entry
        return found

    def answers(self, wanted: dict[str, dict]):
        """Of the requests in `wanted`, as they end; those that lack rows are left out."""
        path = os.path.join(self.folder, "rows.jsonl")
        open_rows, held = {}, 0
        for place, (number, row) in enumerate(_lines(path)):
            try:
                request = wanted.get(row["request_id"])
                if request is None:
                    continue
                values, places = open_rows.setdefault(row["request_id"], (array("d"), array("q")))
                values.extend(_floats(row))
                places.append(place)
                held += 1
                if held > OPEN_ROWS_MAX:
                    raise InputError(f"{path}: more than {OPEN_ROWS_MAX:,} rows of requests that "
                                     "have not ended; expected is_finished in their last rows")
                if row["is_finished"]:
                    del open_rows[row["request_id"]]
                    held -= len(places)
                    answer = self._answer(request, row, values, places)
                    if answer:
                        yield answer
            except (KeyError, TypeError, AttributeError) as error:
                raise InputError(f"{path}, line {number}: {error!r}; expected a row of an EOS "
                                 "log") from error

    def _answer(self, request, last, values, places) -> Answer | None:
        rows = np.frombuffer(values).reshape(-1, len(_KEYS))
        if not np.array_equal(rows[:, 0], np.arange(1, len(rows) + 1)):
            return None
        end = last.get("natural_end_step")
        natural = last["finish_reason"] == "stop_eos" or end is not None
        rows = rows[:end] if end is not None else rows
        places = None if self.projections is None else np.array(places)[:len(rows)]
        if places is not None and places.max() >= len(self.projections):
            raise InputError(f"{self.folder}: projections.f32 has {len(self.projections)} rows, "
                             "fewer than rows.jsonl; collect it again")
        number = lambda key, otherwise: otherwise if request[key] is None else request[key]
        prompt = request["prompt"]
        return Answer(request_id=request["request_id"], family=request["family"] or "none",
                      prompt=prompt, split=self._splits.of(prompt), seed=number("seed", 0),
                      temperature=round(number("temperature", 1.0),
                                        6), top_p=round(number("top_p", 1.0), 6),
                      max_tokens=number("max_tokens",
                                        NO_LIMIT), prompt_length=last["prompt_length"],
                      natural=natural, finish_reason=last["finish_reason"], figures=rows[:,
                                                                                         2:].copy(),
                      tokens=rows[:, 1].astype(np.int64), part=self, rows=places)


_REQUEST_KEYS = ("request_id", "family", "prompt_index", "prompt_sha256", "seed", "temperature",
                 "top_p", "max_tokens", "output_length")


def place_of(entry: dict) -> str:
    return f"{entry['family']}/{entry['prompt_index']}"


def _name_prompts(requests: list[dict], splits: "Splits"):
    """Gives each request the name of its prompt.

    A prompt that stands in two lines of a file is one prompt, so its name is the hash of what was
    asked, and its place where split.jsonl has chosen by places. If only some requests have the
    hash, as those of older logs have not, all are named by their places: else answers to one
    prompt would have two names.
    """
    hashed = all(request["prompt_sha256"] for request in requests)
    for request in requests:
        by_hash = hashed and not splits.chosen
        request["prompt"] = request["prompt_sha256"] if by_hash else place_of(request)
    if splits.chosen:
        splits.check(requests)


class Splits:
    """Of each prompt its split: as split.jsonl says, else 60/20/20 by a hash of its name."""

    def __init__(self, path: str):
        self._path = path
        self._of = {}
        if not os.path.exists(path):
            return
        for number, entry in _lines(path):
            try:
                split = entry["split"]
                self._of[place_of(entry)] = split
            except (KeyError, TypeError) as error:
                raise InputError(f"{path}, line {number}: {error!r}; expected family, prompt_index "
                                 "and split") from error
            if split not in SPLITS:
                raise InputError(f"{path}, line {number}: split {split!r}; expected one of "
                                 f"{', '.join(SPLITS)}")

    @property
    def chosen(self) -> bool:
        return bool(self._of)

    def check(self, requests: list[dict]):
        """Nothing that is judged may have been learnt from, under whatever name."""
        first = {}
        for request in requests:
            prompt, sha = request["prompt"], request["prompt_sha256"]
            if not sha or prompt not in self._of:
                continue
            other = first.setdefault(sha, prompt)
            if self._of[other] != self._of[prompt]:
                raise InputError(f"{self._path}: {other} and {prompt} are the same prompt "
                                 f"({sha[:12]}…) in the splits {self._of[other]} and "
                                 f"{self._of[prompt]}; expected all answers to a prompt in one")

    def of(self, prompt: str) -> str:
        if self._of:
            if prompt not in self._of:
                raise InputError(f"{self._path} has no line for the prompt {prompt}; expected one "
                                 "for each prompt of the answers")
            return self._of[prompt]
        place = _fraction("split", prompt)
        return "train" if place < 0.6 else "validation" if place < 0.8 else "test"


def _fraction(salt: str, text: str) -> float:
    digest = hashlib.blake2b(f"{salt} {text}".encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(digest.digest(), "big") / 2**64


def _floats(row):
    try:
        values = _figures_of(row)
        return values if None not in values else [_float(value) for value in values]
    except KeyError:
        return [_float(row.get(key)) for key in _KEYS]


def _float(value) -> float:
    return float("nan") if value is None else float(value)


def _lines(path: str):
    try:
        with open(path, "rb", buffering=1 << 20) as file:
            for number, line in enumerate(file, start=1):
                try:
                    yield number, json.loads(line)
                except ValueError as error:
                    raise InputError(f"{path}, line {number} is not JSON: {error}; collect it "
                                     "again") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}; give a folder that `baton eos collect` "
                         "filled") from error


def _parts(folder: str) -> list[str]:
    there = lambda path: (os.path.basename(path) != CEILING and os.path.exists(
        os.path.join(path, "rows.jsonl")))
    try:
        found = [folder] if there(folder) else sorted(
            entry.path for entry in os.scandir(folder) if entry.is_dir() and there(entry.path))
    except OSError as error:
        raise InputError(f"{folder} cannot be read: {error}; give a folder that `scripts/eos "
                         "dataset` filled") from error
    if not found:
        raise InputError(f"{folder} has no rows.jsonl, nor a folder that has one; give a folder "
                         "that `scripts/eos dataset` filled")
    return found


def _the_same(values: list, folder: str, what: str):
    if len(set(values)) > 1:
        raise InputError(f"{folder} has folders of several {what}: {', '.join(map(repr, values))}; "
                         "expected one")
    return values[0]


def _manifest(path: str) -> dict:
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        content["model"]["fingerprint"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} cannot be read: {error!r}; expected the one that `baton eos "
                         "collect` wrote") from error
    return content
