"""Requests of EOS logs, one at a time, however their rows interleave.

Memory holds the rows of requests that have not ended yet, so a log may be of any size.
Rows with fewer keys than Baton's are read, too: what is missing is NaN and counted.
"""

import json
from array import array
from collections import Counter
from dataclasses import dataclass
from operator import itemgetter

import numpy as np

from baton_analysis.eos.files import open_logs
from baton_analysis.errors import InputError

# Of requests that have not ended; 64 bytes each.
OPEN_ROWS_MAX = 4_000_000
STEP_MAX = 2**31 - 1

COLUMNS = ("step", "current_token_id", "eos_logprob", "eos_prob", "eos_prob_sampling", "eos_rank",
           "entropy", "top1_prob")
STEP, TOKEN, LOGPROB, PROB, HAZARD, RANK, ENTROPY, TOP1 = range(len(COLUMNS))
_values_of = itemgetter(*COLUMNS)

# Says of an answer that it stopped, not by what. Only its last token can tell, where it is EOS.
_VAGUE_STOPS = ("stop", "eos")
# Stands for a probability of 0 where its logarithm is needed.
_LEAST_PROB = 1e-45


@dataclass(slots=True)
class Sequence:
    """One answer up to its natural end, or up to where it was cut off. Rows are in order."""

    request_id: str
    index: int  # of several answers to the request
    rows: np.ndarray  # [rows, COLUMNS]; NaN: not in the log
    finish_reason: str  # "unfinished": the log ends before the request does
    natural: bool  # its last row is the one whose draw was EOS; else the end is censored

    @property
    def name(self) -> str:
        """What pages call it."""
        return self.request_id if self.index == 0 else f"{self.request_id}#{self.index}"

    @property
    def length(self) -> int:
        return int(self.rows[-1, STEP])

    @property
    def logprob(self) -> np.ndarray:
        return self.rows[:, LOGPROB]

    @property
    def stopped(self) -> bool:
        """Whether its last draw was one of the stop set, of which EOS is a part."""
        return self.natural or self.finish_reason == "stop_token"


class LogReader:
    """Reads files as one stream, in the given order, so parts of a rotated log fit together. A
    log is read with the parts that were rotated away."""

    def __init__(self, paths: list[str], open_rows_max: int = OPEN_ROWS_MAX):
        self._paths = paths
        self.rows = 0  # read
        self.rows_after_end = 0  # left out: after the natural end of a request that ignores EOS
        self.missing = Counter()  # column -> rows without it
        self.vague_stops = 0  # ended by "stop", with a token that is not eos_token_id
        self.gaps = 0  # requests some of whose rows are not there
        self.cut_lines = 0
        self._open_rows_max = open_rows_max
        self._open = {}  # (id, index) -> [values of all rows, the latest row as read]
        self._open_rows = 0

    def sequences(self):
        with open_logs(self._paths) as files:
            for path, lines in files:
                try:
                    with lines:
                        yield from self._of_file(path, lines)
                except OSError as error:
                    raise InputError(
                        f"{path} cannot be read: {error}; give the file that --eos-log names"
                    ) from error
        for answer in list(self._open):
            yield self._close(answer)

    def _of_file(self, path, file):
        opened = self._open
        for number, line in enumerate(file, start=1):
            try:
                # Read as bytes: a last line that is cut inside of a character is a cut line.
                row = json.loads(line.decode("utf-8"))
                request_id = row["request_id"]
                if not isinstance(request_id, str):
                    raise TypeError(request_id)
                # Logs of requests that have one answer each need not say which it is.
                answer = request_id, int(row.get("index") or 0)
                finished = row.get("is_finished")
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                if isinstance(error, ValueError) and not line.endswith(b"\n"):
                    self.cut_lines += 1  # the log is being written, or its writer was killed
                    return
                raise InputError(
                    f"{path}, line {number} is no row of an EOS log: {shown(line)}; "
                    "expected a JSON object with a request_id") from error
            held = opened.get(answer)
            if held is not None and self._begins_anew(row, held[0]):
                yield self._close(answer)
                held = None
            if held is None:
                held = opened[answer] = [array("d"), row]
            self._append(row, held, path, number)
            if finished:
                yield self._close(answer)

    def _append(self, row, held, path, number):
        try:
            held[0].extend(_values_of(row))
        except (KeyError, TypeError, OverflowError):
            # An array that failed to extend may have taken the first values.
            del held[0][len(held[0]) // len(COLUMNS) * len(COLUMNS):]
            try:
                held[0].extend([_float(row.get(name)) for name in COLUMNS])
            except (ValueError, TypeError, OverflowError) as error:
                raise InputError(
                    f"{path}, line {number}: {error}; expected numbers or null in the keys "
                    f"{', '.join(COLUMNS)}") from error
        step = held[0][-len(COLUMNS)]
        # Some logs count from 0; NaN is a step that the log lacks.
        if step < 0 or step > STEP_MAX:
            raise InputError(f"{path}, line {number}: step {step:g}; expected 1 to {STEP_MAX:,}")
        held[1] = row
        self.rows += 1
        self._open_rows += 1
        if self._open_rows > self._open_rows_max:
            raise InputError(
                f"{path}, line {number}: {len(self._open):,} requests with {self._open_rows:,} "
                f"rows have not ended, at most {self._open_rows_max:,} rows are kept; expected a "
                "row with is_finished at the end of each request. Sort the log by request, or "
                "give a part of it")

    @staticmethod
    def _begins_anew(row, values) -> bool:
        """An id may come again after its request ended, also if the row of the end was lost."""
        step = row.get("step")
        return isinstance(step, int) and step <= values[-len(COLUMNS)]

    def _close(self, answer) -> Sequence:
        values, last = self._open.pop(answer)
        rows = np.frombuffer(values, dtype=np.float64).reshape(-1, len(COLUMNS)).copy()
        self._open_rows -= len(rows)
        _complete(rows)
        self._note_missing(rows)
        if rows[0, STEP] != 1 or rows[-1, STEP] != len(rows):
            self.gaps += 1
        reason = last.get("finish_reason") if last.get("is_finished") else "unfinished"
        return self._up_to_the_end(answer, rows, str(reason or "unknown"), last)

    def _note_missing(self, rows):
        for column in np.flatnonzero(np.isnan(rows).any(axis=0)):
            self.missing[COLUMNS[column]] += int(np.isnan(rows[:, column]).sum())

    def _up_to_the_end(self, answer, rows, reason, last) -> Sequence:
        end = _natural_end(rows, last)
        if end is None:
            natural = reason == "stop_eos"
            if reason in _VAGUE_STOPS:
                natural = rows[-1, TOKEN] == _eos_token(last)
                self.vague_stops += not natural
            return Sequence(*answer, rows, reason, bool(natural))
        kept = rows[:end]
        self.rows_after_end += len(rows) - len(kept)
        return Sequence(*answer, kept, reason, True)


def _float(value) -> float:
    return float("nan") if value is None else float(value)


def _eos_token(row) -> int | None:
    token = row.get("eos_token_id")
    return token if isinstance(token, int) and 0 <= token <= STEP_MAX else None


def shown(line: bytes) -> str:
    """The beginning of a line, for messages."""
    return repr(line[:60].decode("utf-8", "replace").strip())


def _complete(rows):
    """Fills in what follows from other columns: steps, and each of probability and logarithm."""
    steps = rows[:, STEP]
    if np.isnan(steps).any():
        steps[:] = np.arange(1, len(rows) + 1)
    elif steps[0] == 0:
        steps += 1  # counted from 0
    # Python writes the logarithm of 0 as -Infinity.
    rows[np.isinf(rows)] = np.nan
    no_log = np.isnan(rows[:, LOGPROB])
    if no_log.any():
        rows[no_log, LOGPROB] = np.log(np.maximum(rows[no_log, PROB], _LEAST_PROB))
    no_prob = np.isnan(rows[:, PROB])
    if no_prob.any():
        rows[no_prob, PROB] = np.exp(rows[no_prob, LOGPROB])


def _natural_end(rows, last) -> int | None:
    """How many rows a request has that went on after its natural end; None: it did not."""
    step = last.get("natural_end_step")
    if isinstance(step, int):
        return max(1, int(np.searchsorted(rows[:, STEP], min(step, STEP_MAX), side="right")))
    eos = _eos_token(last)
    if "natural_end_step" in last or eos is None:
        return None
    # A log without that key: EOS inside an answer means that the answer ignored it.
    at = np.flatnonzero(rows[:-1, TOKEN] == eos)
    return int(at[0]) + 1 if len(at) else None
