"""What is known of requests beside their rows: prompt family, temperature and limit."""

import json
import math
from typing import NamedTuple

from baton_analysis.eos.files import open_logs
from baton_analysis.eos.log import shown
from baton_analysis.errors import InputError

_SUMMARIES = ".requests.jsonl"
# Some 250 bytes each.
SUMMARIES_MAX = 2_000_000


class Label(NamedTuple):
    family: str | None
    temperature: float | None
    max_tokens: int | None = None  # None: not known, or only the context bounded it


UNKNOWN = Label(None, None)


class Labels:
    """Of each request id: its label. The tag of a request is its family, and a families file stands
    above it."""

    def __init__(self):
        self.files_without_summaries = []
        self.left_out = 0  # summaries beyond SUMMARIES_MAX
        self.cut_lines = 0
        self._labels: dict[str, Label] = {}
        self._families: dict[str, str] = {}

    def of(self, request_id: str) -> Label:
        label = self._labels.get(request_id, UNKNOWN)
        family = self._families.get(request_id)
        return label._replace(family=family) if family is not None else label

    def read_families(self, path: str):
        """A JSON object {request id: family}."""
        try:
            with open(path, encoding="utf-8") as file:
                families = json.load(file)
        except (OSError, ValueError, RecursionError) as error:
            raise InputError(f"--families {path} cannot be read: {error}") from error
        if not isinstance(families, dict) or not all(isinstance(f, str) for f in families.values()):
            raise InputError(
                f"--families {path} is no object of texts; "
                'expected {"REQUEST ID": "FAMILY", …}')
        self._families = families

    def read_summaries(self, log: str):
        """What stands in LOG.requests.jsonl beside a log and its parts, where it is there."""
        same = {}  # labels are few: each is kept once
        with open_logs([log], beside=_SUMMARIES) as files:
            for file, lines in files:
                if lines is None:
                    self.files_without_summaries.append(file)
                else:
                    self._read(file.removesuffix(".zst") + _SUMMARIES, lines, same)

    def _read(self, path, lines, same):
        try:
            with lines:
                for number, line in enumerate(lines, start=1):
                    self._take(path, number, line, same)
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error}") from error

    def _take(self, path, number, line, same):
        try:
            summary = json.loads(line.decode("utf-8"))
            request_id = _text(summary["request_id"])
            temperature = (summary.get("sampling") or summary).get("temperature")
            tag = summary.get("tag")
            label = Label(None if tag is None else _text(tag) or None, _temperature(temperature),
                          _limit(summary.get("max_tokens")))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError,
                RecursionError) as error:
            if isinstance(error, ValueError) and not line.endswith(b"\n"):
                self.cut_lines += 1  # being written, or its writer was killed
                return
            raise InputError(
                f"{path}, line {number} is no summary of a request: {shown(line)}; give logs whose "
                "FILE.requests.jsonl is as Baton wrote it") from error
        if len(self._labels) >= SUMMARIES_MAX:
            self.left_out += 1
        else:
            self._labels[request_id] = same.setdefault(label, label)


def _text(value) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _temperature(value) -> float | None:
    """Baton keeps it in 32 bits: 0.8 comes as 0.800000011920929."""
    if value is None:
        return None
    rounded = float(f"{value:.6g}")
    if not math.isfinite(rounded):
        raise TypeError(f"{value!r} is no temperature")
    return rounded


def _limit(value) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise TypeError(f"{value!r} is no limit")
    return value
