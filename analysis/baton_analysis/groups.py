"""Which requests a picture is of: like runs together, only their measured window."""

from dataclasses import dataclass

from baton_analysis.result import Result
from baton_analysis.rows import Request, Rows, Run


@dataclass(frozen=True)
class Member:
    run: Run
    window: tuple[float, float] | None  # None: all of the run
    described: dict | None  # the run in result.json

    @property
    def requests(self) -> list[Request]:
        if self.window is None:
            return self.run.requests
        first, last = self.window
        return [request for request in self.run.requests if first <= request.scheduled <= last]


@dataclass(frozen=True)
class Group:
    """Runs of one load and one use of EOS."""

    name: str
    members: list[Member]

    @property
    def completed(self) -> list[Request]:
        return [request for member in self.members for request in member.requests if request.ok]


NO_ROWS = "there are no rows with completed requests; run with --rows"
EOS_NAMES = {
    "honor": "natural ends",
    "mask": "forced lengths (EOS masked)",
    "continue": "forced lengths (EOS ignored)",
}


def load_name(variable: str, value: float) -> str:
    return f"{value:.3g} requests/s" if variable == "rate" else f"{value:.0f} under way"


def label_of(variable: str, value: float) -> str:
    """How the bench labels the runs of a search in its rows."""
    return f"{value:.6g} requests/s" if variable == "rate" else f"{value:.0f} under way"


def measured_groups(result: Result, rows: Rows | None) -> list[Group]:
    return [group for group in groups_of(result, rows) if group.completed] if rows else []


def groups_of(result: Result, rows: Rows) -> list[Group]:
    """The runs by load and EOS; of a search, the runs at the highest load that kept the SLO."""
    runs = [run for run in rows.runs if run.requests]
    if result.search:
        return _of_search(result, runs)
    groups: dict[str, list[Member]] = {}
    for run in runs:
        described = result.runs[run.index] if run.index < len(result.runs) else None
        groups.setdefault(_name(described), []).append(_member(run, described))
    return [Group(name, members) for name, members in groups.items()]


def _of_search(result: Result, runs: list[Run]) -> list[Group]:
    if result.best is not None:
        label = label_of(result.variable, result.best)
        # By their start: a second look at a load has the label of the first.
        described = {run["unix_started"]: run for run in result.runs}
        at_best = [run for run in runs if run.label.split(",")[0] == label]
        if at_best:
            name = load_name(result.variable, result.best)
            # The described one first: pictures of a single run show it, with what servers said.
            at_best.sort(key=lambda run: run.started_unix not in described)
            members = [_member(run, described.get(run.started_unix)) for run in at_best]
            return [Group(f"{name}, the most that kept the SLO", members)]
    return [Group(f"{runs[-1].label}, the last load tried", [_member(runs[-1], None)])] if runs else []


def _member(run: Run, described: dict | None) -> Member:
    window = described.get("window") if described else None
    return Member(run, (window["from"], window["to"]) if window else None, described)


def _name(described: dict | None) -> str:
    if described is None:
        return "run that the result does not describe"
    rate, concurrency = described.get("rate"), described.get("concurrency")
    load = load_name("rate", float(rate)) if rate else load_name("concurrency", concurrency) if concurrency else ""
    eos = EOS_NAMES.get(described.get("eos"), "")
    return ", ".join(part for part in (load, eos) if part) or "trace"
