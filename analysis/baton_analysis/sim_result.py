"""Results of `baton sim --json`: one JSON object a file, described in tools/sim/sim_figures.h."""

import json
from dataclasses import dataclass, field

from baton_analysis import intervals
from baton_analysis.errors import InputError

SCHEMA = "baton.sim/1"
# Settings that do not make another load or cluster, only more columns, more runs or other output.
NOT_COMPARED = ("policy", "routing", "runs", "seed", "json", "plots")
# Which setting is the axis where several differ: the first of these, else any one that is a number.
AXES = ("rate", "concurrency", "time-scale")


@dataclass
class Case:
    """The runs under one policy at one load, one for each seed."""

    name: str
    at: float | None  # on the axis; None where there is none
    runs: list[dict] = field(default_factory=list)

    def each(self, *path) -> list[float]:
        """A figure of every run that has it: case.each("ttft_ms", "p99")."""
        return [value for value in (_down(run, path) for run in self.runs) if value is not None]

    def mean(self, *path) -> float | None:
        values = self.each(*path)
        return sum(values) / len(values) if values else None

    def half(self, *path) -> float:
        """Half of a 95 % interval of the mean; 0 of a single run."""
        return intervals.half(self.each(*path))

    def spread(self, metric) -> list[float]:
        """The distribution of a latency at `shares`: the mean over the runs."""
        runs = [run[metric]["at"] for run in self.runs if run[metric]]
        return [sum(values) / len(runs) for values in zip(*runs)]


def _down(value, path):
    for key in path:
        if value is None:
            return None
        value = value[key]
    return value


class SimResult:
    """What all files say together: cases by load and policy."""

    def __init__(self, contents: list[dict]):
        self.setup: dict[str, str] = contents[0]["setup"]
        self.shares: list[float] = contents[0]["shares"]
        self.axis = _axis(contents)
        self.cases: list[Case] = []
        entries = [policy for content in contents for policy in content["policies"]]
        told = list(dict.fromkeys(key for entry in entries for key in entry if key not in ("policy", "runs")))
        shown = [key for key in told if len({entry.get(key) for entry in entries}) > 1]
        varied = [key for key in _varied(contents) if key != self.axis and key not in told]
        found: dict[tuple, Case] = {}
        for content in contents:
            setup = content["setup"]
            at = float(setup[self.axis]) if self.axis else None
            for entry in content["policies"]:
                name = " · ".join([entry["policy"], *(str(entry.get(key, "-")) for key in shown),
                                   *(f"{key} {setup.get(key) or 'not set'}" for key in varied)])
                case = found.setdefault((name, at), Case(name, at))
                seeds = {run["seed"] for run in case.runs}
                case.runs += [run for run in entry["runs"] if run["seed"] not in seeds]
        self.cases = sorted(found.values(), key=lambda case: case.at or 0)

    @property
    def names(self) -> list[str]:
        """Of the columns, in the order of the files."""
        return list(dict.fromkeys(case.name for case in self.cases))

    @property
    def at_top(self) -> list[Case]:
        """One case of each name, at the highest load."""
        top = max(case.at or 0 for case in self.cases)
        cases = {case.name: case for case in self.cases if (case.at or 0) == top}
        return [cases[name] for name in self.names if name in cases]

    def along(self, name: str) -> list[Case]:
        """The cases of a name by ascending load."""
        return [case for case in self.cases if case.name == name]

    @property
    def limits(self) -> dict[str, float]:
        """Milliseconds of --slo by metric."""
        limits = {}
        for part in filter(None, self.setup.get("slo", "").split(",")):
            name, _, value = part.partition("=")
            milliseconds = _milliseconds(value)
            if milliseconds and name.strip() != "percentile":
                limits[name.strip()] = milliseconds
        return limits


def _milliseconds(text: str) -> float | None:
    """Of a time as --slo takes it: a number with a unit, or of milliseconds."""
    for unit, factor in (("ms", 1.0), ("s", 1e3), ("m", 6e4), ("h", 3.6e6), ("", 1.0)):
        if text.strip().endswith(unit):
            try:
                return float(text.strip().removesuffix(unit)) * factor
            except ValueError:
                continue
    return None


def _varied(contents: list[dict]) -> list[str]:
    keys = dict.fromkeys(key for content in contents for key in content["setup"])
    return [key for key in keys if key not in NOT_COMPARED
            and len({content["setup"].get(key) for content in contents}) > 1]


def _axis(contents: list[dict]) -> str | None:
    numbers = [key for key in _varied(contents)
               if all(_is_number(content["setup"].get(key)) for content in contents)]
    return next((key for key in AXES if key in numbers), numbers[0] if len(numbers) == 1 else None)


def _is_number(text) -> bool:
    try:
        float(text)
    except (TypeError, ValueError):
        return False
    return True


def read_results(paths: list[str]) -> SimResult:
    return SimResult([_read(path) for path in paths])


def _read(path: str) -> dict:
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    except ValueError as error:
        raise InputError(f"{path} is not JSON: {error}; give what `baton sim --json` prints") from error
    schema = content.get("schema") if isinstance(content, dict) else None
    if schema != SCHEMA:
        raise InputError(f"{path} has schema {schema!r}, expected {SCHEMA!r}; give what `baton sim --json` prints")
    missing = [name for name in ("setup", "shares", "policies") if not content.get(name)]
    if missing:
        raise InputError(f"{path} lacks {', '.join(missing)}; simulate again with this version of baton")
    return content
