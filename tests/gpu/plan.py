"""Parts of a run: what each is, how long it may take, and how one is run so that it cannot hurt the next.

A part runs in a process of its own, which is the leader of a process group. When it is over, well or
not, that group is killed; servers that it started with a parent-death signal go with it. What it found
until then lies in a file, so that a part which ran out of time still tells that much.
"""

import contextlib
import dataclasses
import json
import multiprocessing
import os
import pathlib
import signal
import sys
import time
import traceback
import typing

import report


MOST_OF_ERROR = 4000  # characters
BLOCKS = "no_further_part"


class Skip(Exception):
    """The part has no meaning here; says why."""


class NotMeasured(Exception):
    """The part could not be done here; says what was missing."""


class Failure(Exception):
    """Something is wrong with what was checked; says what."""


@dataclasses.dataclass(frozen=True)
class Part:
    name: str
    what: str                          # for --help
    run: typing.Callable               # (context, recorder) -> None, or raises one of the above
    limit_s: float                     # it is ended after that
    needs_s: float                     # it is not begun with less than that left
    rows: typing.Callable = lambda sizes: []  # of the table, with the sizes of the device
    after: tuple = ()                  # parts that have to run before it


class Recorder:
    """What a part has found so far; every change is on disk at once."""

    def __init__(self, path, rows):
        self._path = pathlib.Path(path)
        self._found = {"why": "", "details": {}, "rows": [dataclasses.asdict(row) for row in rows]}
        self._save()

    def why(self, text):
        """The one line of the parts' table."""
        self._found["why"] = text
        self._save()

    def blocks(self, why):
        """No further part is begun, because of `why`, unless this is taken back by '' before the part ends."""
        self._found["details"].pop(BLOCKS, None)
        if why:
            self._found["details"][BLOCKS] = why
        self._save()

    def detail(self, name, value):
        self._found["details"][name] = value
        self._save()

    def row(self, what, **values):
        """Fills in a row that the part promised: baton, percent, peer, data."""
        for row in self._found["rows"]:
            if row["what"] == what:
                row["data"].update(values.pop("data", {}))
                row.update(values)
                self._save()
                return
        known = ", ".join(repr(row["what"]) for row in self._found["rows"])
        raise ValueError(f"no row {what!r}; this part has {known or 'none'}")

    def _save(self):
        fresh = self._path.with_suffix(".new")
        fresh.write_text(json.dumps(self._found))
        fresh.replace(self._path)


def _run_in_child(part, context, path, log, rows, limit_s):
    os.setpgid(0, 0)
    context.begin(limit_s)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with open(log, "a", encoding="utf-8") as output:
        log_begin = output.tell()
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    recorder = Recorder(path, rows)
    status, why = report.PASSED, None
    try:
        part.run(context, recorder)
    except Skip as error:
        status, why = report.SKIPPED, str(error)
    except NotMeasured as error:
        status, why = report.NOT_MEASURED, str(error)
    except BaseException as error:  # whatever it is, it is this part's and nobody else's
        traceback.print_exc()
        status, why = report.FAILED, first_line(error)
        recorder.detail("error", str(error).strip()[:MOST_OF_ERROR])
    if why is not None:
        recorder.why(why)
    sys.stdout.flush()
    sys.stderr.flush()
    if status != report.PASSED:
        recorder.detail("end_of_log", end_of_log(log, log_begin))
    recorder.detail("status", status)
    os._exit(0)


def end_of_log(log, begin, most=20000):
    """The end of what this part has written into the log, where the logs of its servers stand."""
    with open(log, "rb") as output:
        size = output.seek(0, os.SEEK_END)
        output.seek(max(begin, size - most))
        return output.read().decode(errors="replace")


def first_line(error, limit=300):
    lines = str(error).strip().splitlines()
    line = lines[0] if lines else type(error).__name__
    if line.endswith(":") and len(lines) > 1:  # what follows is a log, whose end tells most
        line += " " + lines[-1].strip()
    return line if len(line) <= limit else line[:limit - 1] + "…"


def kill_group(process):
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.join(10)  # one that hangs within a driver does not even end then


def run_part(part, context, folder, log, limit_s):
    """Runs one part for at most `limit_s`; a PartResult whatever happens."""
    rows = part.rows(context.sizes)
    path = pathlib.Path(folder) / f"{part.name}.json"
    path.unlink(missing_ok=True)
    begin = time.monotonic()
    # Forked: a part is a function of this program, and this process has no threads.
    process = multiprocessing.get_context("fork").Process(
        target=_run_in_child, args=(part, context, path, log, rows, limit_s))
    process.start()
    try:
        process.join(limit_s)
        in_time = not process.is_alive()
    finally:
        kill_group(process)
    seconds = time.monotonic() - begin
    found = json.loads(path.read_text()) if path.exists() else {
        "why": "", "details": {}, "rows": [dataclasses.asdict(row) for row in rows]}
    status = found["details"].pop("status", None)
    why = found["why"]
    if status is None:
        status = report.FAILED
        ended = f"ended with {process.exitcode}" if in_time else f"not done after {limit_s:.0f} s"
        why = f"{ended}; until then: {why or 'nothing'}"
    rows = [report.Row(**row) for row in found["rows"]]
    return report.PartResult(part.name, status, why, round(seconds, 1), rows, found["details"])


def not_run(part, context, why):
    return report.PartResult(part.name, report.NOT_MEASURED, f"not run: {why}", 0, part.rows(context.sizes))


def allotted(parts, at, left_s):
    """Seconds for part `at`: up to its limit, with what those behind it need to begin left to them, as long as
    it has what it needs itself."""
    part = parts[at]
    behind = sum(later.needs_s for later in parts[at + 1:])
    return min(part.limit_s, left_s, max(part.needs_s, left_s - behind))


def run_all(parts, context, folder, log, budget_s, on_result, clock=time.monotonic):
    """Runs the parts in order within `budget_s`; on_result(results so far) after each."""
    deadline = clock() + budget_s
    results, blocked = [], ""
    for at, part in enumerate(parts):
        left = deadline - clock()
        if blocked:
            result = not_run(part, context, blocked)
        elif left < part.needs_s:
            result = not_run(part, context,
                             f"time; {max(0, left):.0f} s of {budget_s:.0f} s left, needs {part.needs_s:.0f} s")
        else:
            with open(log, "a", encoding="utf-8") as output:
                output.write(f"\n===== {part.name}: {part.what}\n")
            result = run_part(part, context, folder, log, allotted(parts, at, left))
            if why := result.details.get(BLOCKS):
                blocked = f"{part.name}: {why}"
        results.append(result)
        on_result(results)
    return results


def chosen(parts, only):
    """The parts named in the comma list `only` and what they come after, in their own order; ValueError
    for a name that is none."""
    names = [name.strip() for name in only.split(",") if name.strip()]
    known = [part.name for part in parts]
    for name in names:
        if name not in known:
            raise ValueError(f"--only: no part '{name}'; expected some of {', '.join(known)}")
    wanted = {*names, *(name for part in parts if part.name in names for name in part.after)}
    return [part for part in parts if not names or part.name in wanted]
