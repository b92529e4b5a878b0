#!/usr/bin/env python3
"""Holds `baton sim` against a service on this machine: a unified worker of the demo model on the CPU.

Serves, loads the service so that its steps vary, fits their times (`baton sim fit`) to the worker's metrics
pages, takes what lies between steps from two closed loops, and then has three other loads both served and
simulated: two rates and a closed loop. Prints the mean TTFT,
TPOT and end to end of both, medians over the runs, and by how much the simulation is off. The machine should do
nothing else.

    scripts/sim_check.py [--bin build/cpu/bin] [--model models/demo] [--runs 5] [--keep DIR]
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
FAIR = 0.15
WORKER = {"max-num-seqs": 32, "kv-cache-tokens": 32768, "max-prefill-tokens": 512,
          "max-num-batched-tokens": 544}
LENGTHS = ["--input-tokens", "16:256", "--output-tokens", "16:96", "--eos", "mask"]


class Service:
    """`baton serve` until the end of the block."""

    def __init__(self, binary, model, log):
        flags = [f"--{name}={value}" for name, value in WORKER.items()]
        # The router and the load have cores of their own: steps that share theirs are of no one length.
        threads = max(1, len(os.sched_getaffinity(0)) - 2)
        self.process = subprocess.Popen(
            [binary, "serve", model, "--mode", "unified", "--decode", "1", "--port", "0", "--admin-port", "0",
             "--http-port", "0", "--eos-log", "off", "--load-cache", "off", "--threads", str(threads), *flags],
            stdout=subprocess.PIPE, stderr=log, text=True)

    def __enter__(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit("the service did not start; its log says why (--keep DIR)")
        ready = json.loads(line)
        self.grpc = ready["grpc"]
        self.worker = next(w["admin"] for w in ready["workers"] if w["role"] == "decode")
        return self

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
            with urllib.request.urlopen(f"http://{self.address}/metrics", timeout=10) as page:
                path.write_bytes(page.read())
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
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done


def bench(binary, service, folder, load, runs, seed):
    out = folder / "bench.json"
    run([binary, "bench", "--server", service.grpc, *load, *LENGTHS, "--runs", str(runs), "--seed", str(seed),
         "--out", str(out)])
    return [r["whole_run"] for r in json.loads(out.read_text())["runs"]]


def simulate(binary, cost, message_ms, load, runs, seed):
    flags = [f"--{name}={value}" for name, value in WORKER.items()]
    done = run([binary, "sim", "--step-cost", cost, "--message-ms", f"{message_ms:.3f}", "--max-model-len", "2048",
                *flags, *load, *LENGTHS, "--runs", str(runs), "--seed", str(seed), "--json"])
    return json.loads(done.stdout)["policies"][0]["runs"]


def median(runs, name):
    return statistics.median(r[name]["mean"] for r in runs)


def calibrate(binary, service, folder, cost):
    """Adds to the costs what measured steps leave out, the engine's work between two of them, by the TPOT of two
    closed loops; and returns the time of a message, by the TTFT of requests that wait for nothing else."""
    missing = {}
    for concurrency in (1, 24):
        load = ["--concurrency", str(concurrency), "--requests", str(40 + 8 * concurrency)]
        served = median(bench(binary, service, folder, load, 3, 500), "tpot_ms")
        missing[concurrency] = served - median(simulate(binary, str(cost), 0, load, 3, 500), "tpot_ms")
    row = max(0.0, (missing[24] - missing[1]) / 23)
    step = max(0.0, missing[1] - row)
    costs = json.loads(cost.read_text())
    costs["us"]["step"] += 1e3 * step
    costs["us"]["row"] += 1e3 * row
    cost.write_text(json.dumps(costs))
    print(f"between steps: {step:.3f} ms and {row:.4f} ms per row")
    alone = ["--concurrency", "1", "--requests", "40"]
    served = median(bench(binary, service, folder, alone, 3, 600), "ttft_ms")
    return max(0.0, (served - median(simulate(binary, str(cost), 0, alone, 3, 600), "ttft_ms")) / 2)


def check(binary, model, runs, folder):
    with open(folder / "serve.log", "w") as log, Service(binary, model, log) as service:
        with Pages(service.worker, folder) as pages:
            for concurrency in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32):
                done = bench(binary, service, folder,
                             ["--concurrency", str(concurrency), "--requests", str(20 + 6 * concurrency)], 1,
                             1000 + concurrency)
        capacity = done[0]["request_throughput"]
        fitted = run([binary, "sim", "fit", *pages.paths])
        print(fitted.stderr, end="")
        cost = folder / "cost.json"
        cost.write_text(fitted.stdout)
        message_ms = calibrate(binary, service, folder, cost)
        print(f"capacity {capacity:.1f} requests/s; a message takes {message_ms:.2f} ms")
        loads = {f"rate {part:.0%} of capacity":
                 ["--rate", f"{part * capacity:.2f}", "--requests", str(max(60, int(10 * part * capacity)))]
                 for part in (0.4, 0.7)}
        loads["16 under way"] = ["--concurrency", "16", "--requests", "200"]
        worst = 0
        print(f"{'':26}{'':10}{'served':>10}{'simulated':>12}{'off':>8}")
        for name, load in loads.items():
            served = bench(binary, service, folder, load, runs, 1)
            simulated = simulate(binary, str(cost), message_ms, load, runs, 1)
            for ours, theirs in (("ttft_ms", "ttft_ms"), ("tpot_ms", "tpot_ms"), ("e2e_ms", "e2el_ms")):
                a, b = median(served, theirs), median(simulated, ours)
                worst = max(worst, abs(b / a - 1))
                print(f"{name:26}{ours:10}{a:10.2f}{b:12.2f}{b / a - 1:8.1%}")
        print(f"worst: {worst:.1%}; fair is {FAIR:.0%}")
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
