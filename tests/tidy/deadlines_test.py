"""The times in the table of docs/architecture.md that says what is death are the code's defaults.

Tests of deadlines shorten them, so none of these would notice another default.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/architecture.md"
HEAD = "| what it sees | what it is | after how long |"
UNITS = {"seconds": 1000, "milliseconds": 1}
ROUTER, WORKER = "router/router_options.h", "common/worker/timeouts.h"
SECONDS = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?) (s|ms)\b")


def the_one(file, pattern):
    found = re.findall(pattern, (ROOT / file).read_text())
    if len(found) != 1:
        raise SystemExit(f"{file} has {len(found)} of `{pattern}`; expected 1: tell this test "
                         "where it is")
    return found[0]


def duration(file, name):
    """The value of `base::Duration name` in milliseconds."""
    unit, count = the_one(file, rf"base::Duration {name} = std::chrono::(\w+)\(([\d']+)\);")
    return int(count.replace("'", "")) * UNITS[unit]


def milliseconds(file, name):
    """The value of `constexpr int name`, which counts milliseconds."""
    return int(the_one(file, rf"constexpr int {name} = ([\d']+);").replace("'", ""))


def expected_rows():
    """How each row begins, and the times in it, in milliseconds."""
    fresh = duration(ROUTER, "status_fresh")
    reserve = duration(ROUTER, "reserve") + duration(ROUTER, "answer_grace")
    started = duration(ROUTER, "commit_to_started")
    slow = duration(ROUTER, "slow_answer")
    keepalive = sum(milliseconds("common/rpc/keepalive.h", name)
                    for name in ("kKeepaliveTimeMs", "kKeepaliveTimeoutMs"))
    ask = duration("router/request/attempt.cc", "kAskAfterEvery")
    return [("the worker's `Watch` or a stream ends", []),
            ("no status, and no answer to keepalive", [fresh, fresh, reserve, started, keepalive]),
            ("statuses, but no answer to a reservation", [reserve, ask, slow]),
            ("statuses, but no `Started` after a commit", [started, slow]),
            ("`FULL`, however late", [duration(ROUTER, "full_backoff")]),
            ("`TOO_LONG`, which placement did not foresee", [duration(ROUTER, "no_worker")]),
            ("steps of several seconds", [duration(WORKER, "engine_stall")])]


def table_rows(page):
    """The rows of the table, without its head."""
    lines = page.splitlines()
    if HEAD not in lines:
        raise SystemExit(f"{PAGE.relative_to(ROOT)} has no table `{HEAD}`")
    rows = []
    for line in lines[lines.index(HEAD) + 2:]:
        if not line.startswith("|"):
            return rows
        rows.append(line)
    return rows


def times_of(row):
    return [round(float(count) * (1000 if unit == "s" else 1))
            for count, unit in SECONDS.findall(row)]


def main():
    rows, expected = table_rows(PAGE.read_text()), expected_rows()
    wrong = []
    if len(rows) != len(expected):
        wrong.append(f"the table has {len(rows)} rows, this test knows {len(expected)}")
    for row, (begin, times) in zip(rows, expected):
        if not row.startswith(f"| {begin}"):
            wrong.append(f"expected a row that begins with `{begin}`: {row}")
        elif times_of(row) != times:
            wrong.append(f"the code has {times} ms, the table {times_of(row)}: {row}")
    if wrong:
        print("docs/architecture.md, the table of what is taken for death:", *wrong, sep="\n  ")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
