#!/usr/bin/env python3
"""Holds `baton sim` against a service on this machine: a unified worker of the demo model on the CPU.

Serves, loads the service so that its steps vary, fits their times (`baton sim fit`) to the worker's metrics pages,
takes what lies between steps and how long a message takes from closed loops, and then has three other loads both
served and simulated: two rates and a closed loop. Prints the mean TTFT, TPOT and end to end of both, medians over the
runs, and by how much the simulation is off. The machine should do nothing else: a run during which other
processes computed is served again, and what they took in the runs that count is printed.

    scripts/sim_check.py [--bin build/cpu/bin] [--model models/demo] [--runs 5] [--keep DIR]
"""

import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from scheduling_service import cpu_of, cpu_of_machine, read

ROOT = pathlib.Path(__file__).resolve().parent.parent
FAIR = 0.15
WORKER = {"max-num-seqs": 32, "kv-cache-tokens": 32768, "max-prefill-tokens": 512,
          "max-num-batched-tokens": 544}
# What costs are learnt from is none of the loads that are checked.
FITTED_LOOPS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 20, 24, 32)
BETWEEN_LOOPS = (1, 2, 4, 8, 12, 20, 28)
FITTED_RATES = (0.25, 0.55, 0.85)  # parts of the capacity
CHECKED_RATES = (0.4, 0.7)
CALM_CORES = 0.05  # that other processes may use while a run lasts, before it is served again
TRIES = 3
# A killed check leaves no service behind that the next one would compete with.
DIES_WITH_US = ["setpriv", "--pdeathsig", "TERM"]
LENGTHS = ["--input-tokens", "16:256", "--output-tokens", "16:96", "--eos", "mask"]


class Service:
    """`baton serve` until the end of the block."""

    def __init__(self, binary, model, log):
        flags = [f"--{name}={value}" for name, value in WORKER.items()]
        # The router and the load have cores of their own: steps that share theirs are of no one length.
        threads = max(1, len(os.sched_getaffinity(0)) - 2)
        self.process = subprocess.Popen(
            [*DIES_WITH_US, binary, "serve", model, "--mode", "unified", "--decode", "1", "--port", "0", "--admin-port", "0",
             "--http-port", "0", "--eos-log", "off", "--load-cache", "off",
             "--threads", str(threads), *flags],
            stdout=subprocess.PIPE, stderr=log, text=True)

    def __enter__(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit("the service did not start; its log says why (--keep DIR)")
        ready = json.loads(line)
        self.grpc = ready["grpc"]
        self.worker = next(w["admin"] for w in ready["workers"] if w["role"] == "decode")
        self.others = []  # cores that others used in each run that counts
        return self

    def used(self):
        """Seconds that the service, the load and this process have computed."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        own = (resource.getrusage(who) for who in (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF))
        return cpu_of([self.process.pid, *map(int, children)]) + sum(each.ru_utime + each.ru_stime for each in own)

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=60)


class Pages:
    """Metrics pages of a worker, one every so often, as files."""

    def __init__(self, address, folder, every=0.4):
        self.address, self.folder, self.every = address, folder, every
        self.paths, self.over = [], threading.Event()
        self.thread = threading.Thread(target=self.read)

    def read(self):
        while True:
            path = self.folder / f"page-{len(self.paths):04}.prom"
            path.write_text(read(self.address), encoding="utf-8")
            self.paths.append(str(path))
            if self.over.wait(self.every):
                return

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


def run(command):
    done = subprocess.run([*DIES_WITH_US, *command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done


def bench_once(binary, service, folder, load, seed):
    """The figures of a run, and how many cores other processes used meanwhile."""
    out = folder / "bench.json"
    began, machine, used = time.monotonic(), cpu_of_machine(), service.used()
    run([binary, "bench", "--server", service.grpc, *load, *LENGTHS, "--runs", "1", "--seed", str(seed), "--out",
         str(out)])
    others = (cpu_of_machine() - machine - (service.used() - used)) / (time.monotonic() - began)
    return json.loads(out.read_text())["runs"][0]["whole_run"], max(0.0, others)


def bench(binary, service, folder, load, runs, seed):
    """Figures of runs, each of the calmest try."""
    kept = []
    for number in range(runs):
        tries = []
        while len(tries) < TRIES and not (tries and min(others for _, others in tries) <= CALM_CORES):
            tries.append(bench_once(binary, service, folder, load, seed + number))
        figures, others = min(tries, key=lambda one: one[1])
        service.others.append(others)
        kept.append(figures)
    return kept


def simulate(binary, cost, message_ms, load, runs, seed):
    flags = [f"--{name}={value}" for name, value in WORKER.items()]
    done = run([binary, "sim", "--step-cost", cost, "--message-ms", f"{message_ms:.3f}", "--max-model-len", "2048",
                *flags, *load, *LENGTHS, "--runs", str(runs), "--seed", str(seed), "--json"])
    return json.loads(done.stdout)["policies"][0]["runs"]


def median(runs, name):
    return statistics.median(r[name]["mean"] for r in runs)


def nonnegative(terms, targets, rounds=4000):
    """The weights, none below zero, by which the terms of each sample come nearest to its target, in squares."""
    weights = [0.0] * len(terms[0])
    off = [-target for target in targets]
    for _ in range(rounds):
        for k, weight in enumerate(weights):
            square = sum(t[k] ** 2 for t in terms)
            if square == 0:
                continue
            weights[k] = max(0.0, weight - sum(t[k] * o for t, o in zip(terms, off)) / square)
            off = [o + (weights[k] - weight) * t[k] for t, o in zip(terms, off)]
    return weights


def add_between(us, seen):
    """Adds to the costs what the steps of closed loops took beyond them. `seen` has for each loop its rows, the TPOT that
    was served and the one simulated, in ms; every loop counts by its relative error."""
    knots = us.get("row_beyond", [])
    terms = [[1.0, rows, *(max(0.0, rows - knot["rows"]) for knot in knots)] for rows, _, _ in seen]
    step, row, *bends = nonnegative([[t / served for t in one] for one, (_, served, _) in zip(terms, seen)],
                                    [1 - simulated / served for _, served, simulated in seen])
    us["step"] += 1e3 * step
    us["row"] += 1e3 * row
    for knot, more in zip(knots, bends):
        knot["us"] += 1e3 * more
    return step, row, bends


def message_of(seen):
    """The time of a message by the TTFTs, in ms, that loops had and would have if it took none; both ways count."""
    both = nonnegative([[1 / served] for served, _ in seen], [1 - simulated / served for served, simulated in seen])
    return both[0] / 2


def calibrate(binary, service, folder, cost):
    """Adds to the costs what measured steps leave out, the engine's work between two of them, by the TPOT of closed
    loops; and returns the time of a message, by their TTFT."""
    loads = [["--concurrency", str(many), "--requests", str(60 + 8 * many)] for many in BETWEEN_LOOPS]
    served = [bench(binary, service, folder, load, 3, 500) for load in loads]
    simulated = [simulate(binary, str(cost), 0, load, 3, 500) for load in loads]
    # Of those under way, the rest waits for its first token.
    rows = [many * (1 - median(of, "ttft_ms") / median(of, "e2el_ms")) for many, of in zip(BETWEEN_LOOPS, served)]
    costs = json.loads(cost.read_text())
    step, row, bends = add_between(costs["us"], [(each, median(ours, "tpot_ms"), median(theirs, "tpot_ms"))
                                                 for each, ours, theirs in zip(rows, served, simulated)])
    cost.write_text(json.dumps(costs))
    print(f"between steps: {step:.3f} ms and {row:.4f} ms per row, beyond the bends "
          + (", ".join(f"{more:.4f} ms" for more in bends) or "nothing") + " more")
    simulated = [simulate(binary, str(cost), 0, load, 3, 500) for load in loads]
    return message_of([(median(ours, "ttft_ms"), median(theirs, "ttft_ms")) for ours, theirs in zip(served, simulated)])


def at_rate(rate, seconds):
    return ["--rate", f"{rate:.2f}", "--requests", str(max(60, int(seconds * rate)))]


def fit(binary, service, folder, cost):
    """Fits the costs to pages under loops and rates; returns the capacity, of the widest loop."""
    with Pages(service.worker, folder) as pages:
        for concurrency in FITTED_LOOPS:
            done = bench_once(binary, service, folder,
                              ["--concurrency", str(concurrency), "--requests", str(60 + 6 * concurrency)],
                              1000 + concurrency)
        capacity = done[0]["request_throughput"]
        for part in FITTED_RATES:
            bench_once(binary, service, folder, at_rate(part * capacity, 4), 2000)
    fitted = run([binary, "sim", "fit", *pages.paths])
    print(fitted.stderr, end="")
    cost.write_text(fitted.stdout)
    return capacity


def check(binary, model, runs, folder):
    with open(folder / "serve.log", "w") as log, Service(binary, model, log) as service:
        cost = folder / "cost.json"
        capacity = fit(binary, service, folder, cost)
        message_ms = calibrate(binary, service, folder, cost)
        print(f"costs {json.dumps(json.loads(cost.read_text())['us'])}")
        print(f"capacity {capacity:.1f} requests/s; a message takes {message_ms:.2f} ms", flush=True)
        loads = {f"rate {part:.0%} of capacity": at_rate(part * capacity, 8) for part in CHECKED_RATES}
        loads["16 under way"] = ["--concurrency", "16", "--requests", "300"]
        service.others.clear()
        worst, figures = 0, {}
        print(f"{'':26}{'':10}{'served':>10}{'simulated':>12}{'off':>8}")
        for name, load in loads.items():
            served = bench(binary, service, folder, load, runs, 1)
            simulated = simulate(binary, str(cost), message_ms, load, runs, 1)
            figures[name] = {"served": served, "simulated": simulated}
            for ours, theirs in (("ttft_ms", "ttft_ms"), ("tpot_ms", "tpot_ms"), ("e2e_ms", "e2el_ms")):
                a, b = median(served, theirs), median(simulated, ours)
                worst = max(worst, abs(b / a - 1))
                print(f"{name:26}{ours:10}{a:10.2f}{b:12.2f}{b / a - 1:8.1%}", flush=True)
        (folder / "figures.json").write_text(json.dumps(figures))
        print(f"worst: {worst:.1%}; fair is {FAIR:.0%}. Of {os.cpu_count()} cores others used "
              f"{statistics.median(service.others):.2f} in the median run, {max(service.others):.2f} at most")
        return worst <= FAIR


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=ROOT / "build/cpu/bin", help="folder of the programs")
    parser.add_argument("--model", default=ROOT / "models/demo", help="model directory")
    parser.add_argument("--runs", type=int, default=5, help="runs of each load")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for pages, costs and logs")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        fair = check(str(pathlib.Path(options.bin) / "baton"), str(options.model), options.runs, folder)
    sys.exit(0 if fair else 1)


if __name__ == "__main__":
    main()
