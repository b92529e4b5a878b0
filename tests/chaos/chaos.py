#!/usr/bin/env python3
"""Strikes the shipped binaries at random while clients ask, and looks whether anybody notices.

    tests/chaos/chaos.py [--seed N] [--seconds S | --blows N] [--rate R] [--only KIND,...] [-v]

Two routers, two prefill and three decode workers are killed, stopped, drained, cut off and renamed,
and their disk fills up, in rounds: about 20 seconds of blows under load, then a quiet moment in
which all is healed and answered and nothing may be held. Every answer has to be the one that the
same request gets alone. The binaries are those of BATON_BIN. As root everything happens in a
network and mount namespace of its own; without root what needs one is skipped, and said.

Exit code: 0; 1 something was lost, doubled, different, held or ended by itself, or nothing was
struck or answered, so that the run shows nothing; 2 the command line.
"""

import argparse
import collections
import pathlib
import random
import shutil
import signal
import sys
import time

sys.dont_write_bytecode = True
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent),
                str(pathlib.Path(__file__).resolve().parents[1] / "e2e")]
import client  # noqa: E402
import network as net  # noqa: E402
import plan  # noqa: E402
import prompts  # noqa: E402
import report  # noqa: E402
from blows import Striker  # noqa: E402
from cluster import Cluster  # noqa: E402
from eos_logs import EosLogs  # noqa: E402
from invariants import Memory, held, places_missing, shows_nothing, unseen  # noqa: E402
from load import PATIENCE_S, Load  # noqa: E402
from slots import Slots  # noqa: E402

TICK_S = 0.005
QUIET_S = 60  # at most, until everything is up, seen and given back
MISSES = 40  # one after the other, after which no blow will be struck


class Chaos:
    """One run. All of it but the clients happens on this thread."""

    def __init__(self, options, network, folder):
        self._options = options
        self.failures = []
        self._recent = collections.deque(maxlen=40)
        self.service = Slots(network, folder, {"decode": options.decode, "prefill": options.prefill,
                                               "router": options.routers}, self._fail)
        self.striker = Striker(self.service, network)
        self._logs = EosLogs(self.service, self.striker, self._fail)
        self.memory = Memory()
        self.struck, self.missed = collections.Counter(), collections.Counter()
        self._kinds = plan.kinds(network.abilities, options.only)
        self._began = time.monotonic()
        self.load = None

    def _fail(self, text):
        self.failures.append(text)
        print(f"FAILURE at {time.monotonic() - self._began:.2f} s: {text}", flush=True)

    def _tick(self):
        self.service.tick()
        self.striker.tick()
        time.sleep(TICK_S)

    def _wait(self, problem, what, timeout_s=QUIET_S):
        """Until `problem()` finds none; it is asked less and less often."""
        deadline, pause = time.monotonic() + timeout_s, 0.02
        while True:
            found = problem()
            if not found:
                self._note_wait(what, time.monotonic() - deadline + timeout_s)
                return
            if time.monotonic() > deadline:
                self._fail(f"waited {timeout_s} s in vain for {what}: {found}")
                return
            again = time.monotonic() + pause
            pause = min(0.5, pause * 1.5)
            while time.monotonic() < again:
                self._tick()

    def _note_wait(self, what, seconds):
        if self._options.verbose and seconds > 1:
            print(f"{time.monotonic() - self._began:8.2f} waited {seconds:.1f} s for {what}",
                  flush=True)

    # --- The parts of a run ---

    def start(self):
        requests = prompts.make(self._options.prompts, self._options.seed)
        # One request at a time; a search needs a place for each of its beams.
        with Cluster(decode=1, prefill=0, flags=["--max-num-seqs", str(prompts.BEAMS)]) as one:
            wire = client.Client(one.router.grpc)
            answers = prompts.alone(wire, requests)
            wire.close()
        workers = self.service.of("decode", "prefill")
        for slot in self.service.of("router"):
            slot.restart_at = float("inf")  # until the workers' ports are known
        self._wait(lambda: [s.name for s in workers if s.state != "up"], "the workers")
        for slot in self.service.of("router"):
            slot.restart_at = 0
        self._settle()
        self.load = Load(
            requests, answers, lambda: [s.address for s in self.service.of("router")],
            self.service.unreached_since, self._fail)
        self.load.begin(self._options.clients, self._options.seed)

    def _settle(self):
        self._wait(lambda: not self.service.all_up() and [
            f"{s.name} {s.state}" for s in self.service.all if s.state != "up"], "all processes")
        workers = len(self.service.of("decode", "prefill"))
        self._wait(lambda: "".join(unseen(s, workers) for s in self.service.of("router")),
                   "the routers to see all workers")

    def round(self, number, blows_left, seconds):
        self.service.round = number
        names = [slot.name for slot in self.service.all]
        safe = plan.spared(self._options.seed, number, names, self._options.spare_rounds)
        blows = plan.plan(self._options.seed, number, names, self._kinds, self._options.rate,
                          seconds, safe)
        begin = time.monotonic()
        for blow in blows[:blows_left]:
            while time.monotonic() < begin + blow.at:
                self._tick()
            self._strike(blow)
        while not blows_left < len(blows) and time.monotonic() < begin + seconds:
            self._tick()
        self._quiet()

    def _strike(self, blow):
        hit = self.striker.strike(blow)
        (self.struck if hit else self.missed)[blow.kind] += 1
        line = (f"{time.monotonic() - self._began:8.2f} {'' if hit else 'missed '}{blow.kind} "
                f"{blow.target} for {blow.seconds:.2f} s")
        self._recent.append(line)
        if self._options.verbose:
            print(line, flush=True)

    def _quiet(self):
        self.load.pause()
        self.striker.heal_all()
        self._wait(lambda: self.load.busy() and f"{self.load.busy()} requests are under way",
                   "the answers", PATIENCE_S + QUIET_S)
        self._settle()
        for slot in self.service.all:
            self._wait(lambda s=slot: held(s), "what was held")
        for slot in self.service.of("decode", "prefill"):
            self._wait(lambda s=slot: places_missing(s), "places")
        finished, self.load.tally.finished = self.load.tally.finished, {}
        self._wait(lambda: self._logs.problem(finished), "the EOS logs", 5)
        self._logs.check_tokens(finished)
        self._logs.forget(finished)
        self.memory.look(self.service.all)
        print(f"{time.monotonic() - self._began:6.0f} s: {self.struck.total()} blows, "
              f"{self.load.tally.answers} answers", flush=True)
        if self.failures:
            print("\n".join(["the last blows:", *self._recent]))

    def run(self):
        options, number = self._options, 0
        begin = time.monotonic()  # however long the start took
        end = begin + options.seconds if options.seconds else float("inf")
        missed = 0  # when a blow was last struck
        while not self.failures:
            left = options.blows - self.struck.total() if options.blows else sys.maxsize
            seconds = min(options.round_seconds, end - time.monotonic() - 5)
            if left <= 0 or seconds < 1:
                break
            if number:
                self.load.resume()
            struck = self.struck.total()
            self.round(number, left, seconds)
            number += 1
            if self.struck.total() > struck:
                missed = self.missed.total()
            elif options.blows and self.missed.total() >= missed + MISSES:
                self._fail(f"{self.missed.total() - missed} blows in a row missed their target, so "
                           f"--blows {options.blows} would not end")
        self.load.end()
        self.service.end()
        for problem in (*self.memory.growth(), *self._in_vain()):
            self._fail(problem)
        self.seconds = time.monotonic() - begin

    def _in_vain(self):
        return shows_nothing(self.struck.total(), self.missed.total(), self.load.tally.answers)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int,
                        help="of blows, requests and clients; default: drawn and printed")
    parser.add_argument("--seconds", type=float, help="how long to go on; default 120")
    parser.add_argument("--blows", type=int, help="how many blows to strike, instead of --seconds")
    parser.add_argument("--rate", type=float, default=3, help="blows per second (3)")
    parser.add_argument("--only", default="", help=f"kinds of blows, of {','.join(plan.WEIGHTS)}")
    parser.add_argument("--routers", type=int, default=2)
    parser.add_argument("--prefill", type=int, default=2)
    parser.add_argument("--decode", type=int, default=3)
    parser.add_argument("--clients", type=int, default=8, help="that ask at once (8)")
    parser.add_argument("--prompts", type=int, default=32, help="different requests (32)")
    parser.add_argument("--round-seconds", type=float, default=20,
                        help="of blows between quiet moments (20)")
    parser.add_argument("--spare-rounds", type=int, default=6,
                        help="rounds in which the same process of each role is not killed, so that "
                        "its memory can be watched (6)")
    parser.add_argument("--keep", metavar="DIR",
                        help="where to leave the logs of a run that failed")
    parser.add_argument("-v", "--verbose", action="store_true", help="one line per blow")
    options = parser.parse_args(arguments)
    options.only = tuple(filter(None, options.only.split(",")))
    for kind in options.only:
        if kind not in plan.WEIGHTS:
            parser.error(f"--only has '{kind}'; it takes {', '.join(plan.WEIGHTS)}")
    if options.blows is None and options.seconds is None:
        options.seconds = 120
    return options


def main():
    options = parse(sys.argv[1:])
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(1 << 31)
        sys.argv += ["--seed", str(options.seed)]
    if net.entering():
        print(f"seed {options.seed}", flush=True)
    net.enter()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # through `finally`
    with net.scratch() as folder:
        network = net.Network(folder)
        chaos = None
        try:
            chaos = Chaos(options, network, folder)
            chaos.start()
            chaos.run()
            report.write(chaos)
        finally:
            if chaos is not None:
                chaos.service.kill_all()
                if options.keep and chaos.failures:
                    shutil.copytree(folder, options.keep, dirs_exist_ok=True)
            network.close()
    return 1 if chaos.failures else 0


if __name__ == "__main__":
    sys.exit(main())
