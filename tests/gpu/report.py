"""What tests/gpu/run found, as data: one JSON document and one table for people.

Nothing here starts a process or reads a clock.
"""

import dataclasses
import json

PASSED, FAILED, SKIPPED, NOT_MEASURED = "passed", "failed", "skipped", "not measured"
STATUSES = (PASSED, FAILED, SKIPPED, NOT_MEASURED)


@dataclasses.dataclass
class Row:
    """One figure. `aim` is the least percentage of `limit` that it should reach; 0 = no aim."""

    what: str
    aim: int = 0
    limit: str = ""
    baton: str = NOT_MEASURED
    percent: float | None = None  # of the limit
    peer: str = NOT_MEASURED      # torch or transformers, on the same shape in the same run
    has_peer: bool = False
    data: dict = dataclasses.field(default_factory=dict)

    def aim_text(self):
        return f"≥ {self.aim} % of {self.limit}" if self.aim else ""

    def share_text(self):
        if self.percent is None:
            return ""
        of = f" of {self.data['of']}" if "of" in self.data else ""
        below = ", below the aim" if self.aim and self.percent < self.aim else ""
        return f"{self.percent:.1f} %{of}{below}"

    def peer_text(self):
        return self.peer if self.has_peer else ""


@dataclasses.dataclass
class PartResult:
    name: str
    status: str
    why: str
    seconds: float
    rows: list
    details: dict = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        if self.status not in STATUSES:
            raise ValueError(f"status '{self.status}'; expected one of {', '.join(STATUSES)}")


def exit_code(results):
    return 1 if any(result.status == FAILED for result in results) else 0


def summary(results):
    counts = [(status, sum(result.status == status for result in results)) for status in STATUSES]
    return ", ".join(f"{count} {status}" for status, count in counts if count)


def markdown(head, lines):
    """A table that reads well as text too."""
    cells = [[str(cell).replace("|", "/").replace("\n", " ") for cell in line]
             for line in [head, *lines]]
    widths = [max(len(line[i]) for line in cells) for i in range(len(head))]

    def line(texts):
        return "| " + " | ".join(t.ljust(w) for t, w in zip(texts, widths)) + " |"
    return "\n".join([line(cells[0]), "|" + "|".join("-" * (w + 2) for w in widths) + "|",
                      *map(line, cells[1:])])


def parts_table(results):
    return markdown(["part", "status", "s", "what came of it"],
                    [[r.name, r.status, f"{r.seconds:.1f}", r.why] for r in results])


def figures_table(results):
    rows = [row for result in results for row in result.rows]
    return markdown(["figure", "aim", "Baton", "of the limit", "torch, transformers"],
                    [[r.what, r.aim_text(), r.baton, r.share_text(), r.peer_text()] for r in rows])


def errors(results):
    """What failed at full length, where the table has only its beginning."""
    return [f"{result.name} failed: {result.details['error']}" for result in results
            if result.details.get("error", result.why) != result.why]


def text(head, results):
    """`head`: lines of facts that stand above the tables."""
    blocks = ["\n".join(head), parts_table(results), *errors(results)]
    if any(result.rows for result in results):
        blocks.append(figures_table(results))
    return "\n\n".join([*blocks, summary(results) + "."]) + "\n"


def document(facts, results, seconds):
    parts = [dataclasses.asdict(result) for result in results]
    return json.dumps({"format": 1, **facts, "seconds": round(seconds, 1), "summary":
                       summary(results), "exit_code": exit_code(results), "parts": parts},
                      indent=1, ensure_ascii=False) + "\n"
