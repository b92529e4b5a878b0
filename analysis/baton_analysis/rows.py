"""Rows of `baton bench --rows`: every request of every run, raw.

    rows = read_rows("rows.jsonl")
    for run in rows.runs:
        for request in run.requests:
            print(request.ttft_ms, request.tpot_ms, request.gaps_ms)

Times are seconds since the start of the run; what is derived from them is in milliseconds and counts
from the scheduled arrival, as in result.json.
"""

import json
from dataclasses import dataclass, field
from typing import NamedTuple

from baton_analysis.errors import InputError

SCHEMA = "baton.bench.rows/1"


class Chunk(NamedTuple):
    """Output that arrived in one message."""

    at: float
    tokens: int


class Failure(NamedTuple):
    code: str
    message: str


class ServerTimings(NamedTuple):
    """Where the server says its time went, in milliseconds; kv_transfer comes after the first token."""

    queue: float
    prefill: float
    kv_transfer: float
    ttft: float


@dataclass(frozen=True, slots=True)
class Request:
    run: int
    index: int
    scheduled: float
    sent: float
    ended: float
    chunks: tuple[Chunk, ...]
    error: Failure | None
    cancelled: bool
    prompt_tokens: int
    output_tokens: int
    max_tokens: int
    cached_tokens: int
    planned_prompt_tokens: int
    natural_end_step: int | None
    finish_reason: str
    request_id: str
    attempts: int
    timings: ServerTimings | None
    lag_ms: float

    @property
    def ok(self) -> bool:
        return self.error is None and not self.cancelled

    @property
    def tokens(self) -> int:
        """How many tokens the server counts, or else how many arrived."""
        return self.output_tokens or sum(chunk.tokens for chunk in self.chunks)

    @property
    def ttft_ms(self) -> float | None:
        return 1000 * (self.chunks[0].at - self.scheduled) if self.chunks else None

    @property
    def tpot_ms(self) -> float | None:
        if len(self.chunks) == 0 or self.tokens < 2:
            return None
        return 1000 * (self.chunks[-1].at - self.chunks[0].at) / (self.tokens - 1)

    @property
    def e2el_ms(self) -> float | None:
        return 1000 * (self.chunks[-1].at - self.scheduled) if self.chunks else None

    @property
    def gaps_ms(self) -> list[float]:
        return [1000 * (b.at - a.at) for a, b in zip(self.chunks, self.chunks[1:])]


@dataclass
class Run:
    index: int
    label: str = ""
    started_unix: float = 0
    duration_s: float = 0
    interrupted: bool = False
    complete: bool = False  # its closing line is there
    requests: list[Request] = field(default_factory=list)


@dataclass
class Rows:
    runs: list[Run]
    complete: bool = False  # the closing line of the file is there
    partial_reason: str | None = None  # why the bench ended early


def read_rows(path: str) -> Rows:
    """Reads a file whole; one that was cut off while it was written, up to its last whole line."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    _check_header(path, lines[0])
    rows = Rows(runs=[])
    runs: dict[int, Run] = {}
    for number, line in enumerate(lines[1:], start=2):
        if not line:
            continue
        try:
            entry = json.loads(line)
            _take(entry, rows, runs)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if number == len(lines) and isinstance(error, ValueError):
                break
            raise InputError(f"{path}, line {number}: {_why(error)}; expected a row of {SCHEMA}") from error
    rows.runs = [runs[index] for index in sorted(runs)]
    return rows


def _check_header(path: str, line: str) -> None:
    try:
        schema = json.loads(line).get("schema")
    except (ValueError, AttributeError):
        schema = None
    if schema != SCHEMA:
        raise InputError(
            f"{path} does not begin with a header of schema {SCHEMA} (found {schema!r}); "
            "give the file that `baton bench --rows` wrote"
        )


def _take(entry: dict, rows: Rows, runs: dict[int, Run]) -> None:
    if "complete" in entry:
        rows.complete = entry["complete"]
        rows.partial_reason = entry.get("reason")
        return
    index = entry["run"]
    run = runs.setdefault(index, Run(index))
    if "end" in entry:
        end = entry["end"]
        run.complete = True
        run.label = end.get("label", "")
        run.started_unix = end["started_unix"]
        run.duration_s = end["duration_s"]
        run.interrupted = end["interrupted"]
    else:
        run.requests.append(_request(entry))


def _request(entry: dict) -> Request:
    error = entry["error"]
    timings = entry.get("timings_ms")
    return Request(
        run=entry["run"],
        index=entry["index"],
        scheduled=float(entry["scheduled"]),
        sent=float(entry["sent"]),
        ended=float(entry["ended"]),
        chunks=tuple(Chunk(float(at), int(tokens)) for at, tokens in entry["chunks"]),
        error=Failure(error["code"], error["message"]) if error else None,
        cancelled=entry["cancelled"],
        prompt_tokens=entry["prompt_tokens"],
        output_tokens=entry["output_tokens"],
        max_tokens=entry["max_tokens"],
        cached_tokens=entry.get("cached_tokens", 0),
        planned_prompt_tokens=entry.get("planned_prompt_tokens", -1),
        natural_end_step=entry.get("natural_end_step"),
        finish_reason=entry.get("finish_reason", ""),
        request_id=entry.get("request_id", ""),
        attempts=entry.get("attempts", 1),
        timings=ServerTimings(**timings) if timings else None,
        lag_ms=entry.get("lag_ms", 0.0),
    )


def _why(error: Exception) -> str:
    return f"no {error}" if isinstance(error, KeyError) else str(error)
