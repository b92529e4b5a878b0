"""The processes of a service, each in a slot where it is struck and started again.

One thread owns all of it: it starts them (the kernel ends a process with the thread that began it),
strikes them, and calls `tick` again and again, which starts what is due and sees what ended.
"""

import collections
import dataclasses
import os
import re
import signal
import time

from cluster import BIN, DEMO_MODEL, Failure, Process

DRAIN_S = 2
# Beyond its drain timeout a process has this long to end, on a machine that is busy.
END_S = 30
START_S = 60
COMPLAINT = re.compile(r"[-\d]+ [:.\d]+ ([WE] .*)")
BAD_LOG = re.compile(r"CHECK|^[-\d]+ [:.\d]+ C |terminate called|Sanitizer|pure virtual|\bbug\b")
PORT = 50051
NO_RESOURCE = 4  # the exit code
AFTER_A_FAILURE_S = 2  # what cannot start is not started all the time
KEPT_LOGS = 200  # of processes that ended
NAME = {"decode": "decode.chaos", "prefill": "prefill.chaos"}
WORKER_FLAGS = ["--threads", "1", "--drain-timeout", f"{DRAIN_S}s"]
FLAGS = {  # few places, blocks for about half of what could run in them, several chunks a prompt
    "decode": ["--max-num-seqs", "6", "--kv-cache-tokens", "1536"],
    "prefill": ["--max-num-seqs", "6", "--kv-cache-tokens", "3072",
                "--max-num-batched-tokens", "128"]}
# Of decode workers by turns, so that answers go on from one kind of steps to the other. The draft has
# room for about half of what runs, and swap space for a few answers.
KINDS = [["--swap-space", "2MiB"], ["--speculative", "ngram"],
         ["--draft-model", DEMO_MODEL, "--draft-kv-cache-tokens", "768", "--swap-space", "2MiB"]]
PLACES = {"decode": 6, "prefill": 6}


@dataclasses.dataclass
class Life:
    """What is known of one process, also after its end."""

    slot: str
    number: int
    pid: int
    began: float
    ended: float = None
    killed: bool = False


class Slot:
    """Where one process of the service runs at a time."""

    def __init__(self, role, index, own_network):
        self.role, self.index, self.name = role, index, f"{role}-{index}"
        self.moves = 0
        self._own = own_network
        self.port = PORT if own_network else 0  # a port that was free at the first start stays
        self.state, self.process, self.life = "down", None, None
        self.restart_at = self.since = 0.0
        self.frozen_since = None
        self.lives = 0

    @property
    def host(self):
        if not self._own:
            return "127.0.0.1"
        block = {"decode": 1, "prefill": 2, "router": 3}[self.role]
        return f"127.0.{block}.{self.index + 1 + 100 * (self.moves % 2)}"

    @property
    def address(self):
        return f"{self.host}:{self.port}"

    def enter(self, state, now):
        self.state, self.since = state, now


class Slots:
    """All slots. `on_failure(text)` is told what should never happen."""

    def __init__(self, network, folder, counts, on_failure):
        self._network, self._folder, self._on_failure = network, folder, on_failure
        self.all = [Slot(role, i, network.own)
                    for role in ("decode", "prefill", "router") for i in range(counts[role])]
        self.by_name = {slot.name: slot for slot in self.all}
        self.lives = []
        self.round = 0
        self.unlisted, self.unresolved, self.ghosts = set(), set(), set()
        self.log_lines = {}
        self._logs = collections.deque()
        self._unreached = []  # when a worker ended or was cut off or stopped
        self.eos_logs = {}  # by life: the file that it wrote to
        self.disk_full = lambda: False  # whether it is, or was a moment ago
        self.publish()

    def of(self, *roles):
        return [slot for slot in self.all if slot.role in roles]

    # --- Names ---

    def publish(self):
        """Gives the name of each role the addresses it has now."""
        if not self._network.own:
            return
        names = {}
        for role, name in NAME.items():
            if role not in self.unresolved:
                names[name] = sorted(
                    {slot.host for slot in self.of(role) if slot.name not in self.unlisted}
                    | {f"127.0.9.{self.by_name[ghost].index + 1}" for ghost in self.ghosts
                       if self.by_name[ghost].role == role})
        self._network.names.set(names)

    def _targets(self, role):
        if self._network.own:
            return f"{NAME[role]}:{PORT}"
        return ",".join(slot.address for slot in self.of(role))

    # --- Lives ---

    def start(self, slot, now):
        flags = [BIN / f"baton-{slot.role}", DEMO_MODEL, "--host", slot.host, "--port", slot.port,
                 "--admin-port", "0"]
        if slot.role == "router":
            log = self._network.disk / f"{slot.name}.{self.round}.jsonl"
            flags += ["--eos-log", log, "--ignore-eos", "allow", "--drain-timeout", f"{DRAIN_S}s",
                      "--decode-workers", self._targets("decode")]
            if self.of("prefill"):
                flags += ["--prefill-workers", self._targets("prefill")]
        else:
            flags += [*WORKER_FLAGS, *FLAGS[slot.role]]
            if slot.role == "decode":
                flags += KINDS[slot.index % len(KINDS)]
        slot.lives += 1
        slot.process = Process(f"{slot.name}.{slot.lives}", flags, self._folder)
        slot.life = Life(slot.name, slot.lives, slot.process.pid, now)
        slot.frozen_since = None
        if slot.role == "router":
            self.eos_logs[(slot.name, slot.lives)] = log
        self.lives.append(slot.life)
        slot.enter("starting", now)

    def tick(self):
        now = time.monotonic()
        for slot in self.all:
            if slot.state == "down":
                if now >= slot.restart_at:
                    self.start(slot, now)
            elif not slot.process.running():
                self._ended(slot, now)
            elif slot.state == "starting":
                if slot.process.poll_ready():
                    slot.port = int(slot.process.grpc.rpartition(":")[2])
                    slot.enter("up", now)
                elif now - slot.since > START_S and slot.frozen_since is None:
                    self._hangs(slot, "did not become ready", now)
            elif slot.state == "draining" and slot.frozen_since is None and (
                    now - slot.since > DRAIN_S + END_S):
                self._hangs(slot, "did not end after SIGTERM", now)

    def _hangs(self, slot, what, now):
        self._on_failure(f"{slot.process.name} {what}\n{slot.process.tail()}")
        self.kill(slot, now)

    def _ended(self, slot, now):
        code = slot.process.exit_code()
        starting_router = slot.role == "router" and slot.state == "starting"
        if starting_router and code == NO_RESOURCE and self.disk_full():
            slot.state = "refused"  # no log, no start; a supervisor would try again
            self._bury(slot, now, after_s=0.2)
            return
        if slot.state != "draining" or code != 0:
            self._on_failure(f"{slot.process.name} ended with {code} while it was {slot.state}\n"
                             f"{slot.process.tail()}")
        self._bury(slot, now, AFTER_A_FAILURE_S)

    def _bury(self, slot, now, after_s=0.0):
        slot.life.ended = now
        self.note_unreached(slot, now)
        self._read_log(slot.process)
        slot.restart_at = max(now, slot.restart_at) if slot.state == "draining" else now + after_s
        slot.enter("down", now)

    def _read_log(self, process):
        text = process.log.read_text(errors="replace")
        for line in text.splitlines():
            if BAD_LOG.search(line):
                self._on_failure(f"{process.name} logged: {line}")
            complaint = COMPLAINT.match(line)
            if complaint:
                kind = re.sub(r"\d+", "N", complaint.group(1))[:200]
                self.log_lines[kind] = self.log_lines.get(kind, 0) + 1
        self._logs.append(process.log)
        if len(self._logs) > KEPT_LOGS:
            self._logs.popleft().unlink(missing_ok=True)

    # --- What strikes them; false where it cannot ---

    def kill(self, slot, now, after_s=0.0):
        if slot.state == "down":
            return False
        slot.process.kill()
        slot.life.killed = True
        slot.state = "killed"
        self._bury(slot, now, after_s)
        return True

    def freeze(self, slot, now):
        if slot.state == "down" or slot.frozen_since is not None:
            return False
        os.kill(slot.process.pid, signal.SIGSTOP)
        slot.frozen_since = now
        return True

    def thaw(self, slot, number, now):
        """Ends what `freeze` did to the process of that number; another one is left alone."""
        if slot.lives == number and slot.state != "down" and slot.frozen_since is not None:
            os.kill(slot.process.pid, signal.SIGCONT)
            slot.frozen_since = None
            slot.since = now  # what it has a deadline for begins anew

    def drain(self, slot, now, after_s):
        if slot.state != "up" or slot.frozen_since is not None:
            return False
        os.kill(slot.process.pid, signal.SIGTERM)
        slot.restart_at = now + after_s
        slot.enter("draining", now)
        return True

    # --- All of them ---

    def all_up(self):
        return all(slot.state == "up" and slot.frozen_since is None for slot in self.all)

    def note_unreached(self, slot, now):
        """Whoever had the worker of that slot may believe that it died."""
        if slot.role != "router":
            self._unreached.append(now)

    def unreached_since(self, begin):
        """How often a worker ended, or was cut off or stopped, since then."""
        return sum(1 for when in self._unreached if when >= begin)

    def end(self):
        """Ends all as an operator would, and looks at their exit codes."""
        now = time.monotonic()
        for slot in self.all:
            if slot.frozen_since is not None:
                self.thaw(slot, slot.lives, now)
            if slot.state == "up":
                os.kill(slot.process.pid, signal.SIGTERM)
        for slot in self.all:
            if slot.state != "up":
                continue
            try:
                code = slot.process.terminate(DRAIN_S + END_S)
            except Failure as failure:
                code = str(failure)
            if code != 0:
                self._on_failure(f"{slot.process.name} ended with {code}\n{slot.process.tail()}")
            self._read_log(slot.process)
            slot.enter("down", now)

    def kill_all(self):
        for slot in self.all:
            if slot.process is not None and slot.process.running():
                slot.process.kill()
