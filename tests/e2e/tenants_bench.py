"""What a tenant of little load feels of one that sends three times what the service can answer. Prints, asserts nothing.

  BATON_BIN=build/cpu/bin /usr/bin/python3 -B tests/e2e/tenants_bench.py [--model DIR] [--device] [--step-ms MS]
      [--token-us US] [--rounds N] [--seconds S] [--places N] [--input-tokens D] [--output-tokens D] [--serve FLAGS]

Tenant a sends a tenth of the capacity, tenant b three times the capacity and may have half of the places. The capacity is
measured first, by a closed loop of as many clients as there are places. Each round measures a alone and a beside b, in
turns.

As it is, router, workers and load generators all compute on this machine's processors, and b takes those from a. With
--device the workers compute on a device of their own, as GPUs are: a step waits for --step-ms and for --token-us for each
of its tokens, and the model is so small that computing it takes next to nothing. All else is the service that is shipped.
The printed use of the processors says whether that is so: when it comes near all of them, it is they that were measured.
"""

import argparse
import contextlib
import json
import os
import pathlib
import resource
import shlex
import subprocess
import sys
import tempfile
import time

from cluster import BIN

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def cpu_of(process):
    """Seconds that a process and those that it started have computed, as far as they live."""
    ticks = 0
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if str(process) in (stat.parent.name, fields[1]):
                ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


class Service:
    """`baton serve` with two workers, until the end of the block."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        flags = ["--port", "0", "--admin-port", "0", "--http-port", "0", "--eos-log", folder / "eos.jsonl",
                 "--load-cache", "off", "--log-level", "error",
                 "--max-num-seqs", options.places, "--trust-tenant-header",
                 "--tenant", f"b:max-running={options.places // 2}", *shlex.split(options.serve)]
        model, environment = options.model, dict(os.environ)
        if options.device:
            model = model or random_model(folder)
            flags += ["--threads", "1", "--enable-failpoints"]
            environment["BATON_FAILPOINT"] = (f"stepping:delay_ms={options.step_ms},"
                                              f"stepping:delay_us_each={options.token_us}")
        with open(folder / "serve.log", "wb") as log:
            self.process = subprocess.Popen(list(map(str, [BIN / "baton", "serve", model or ROOT / "models/demo", *flags])),
                                            env=environment, stdout=subprocess.PIPE, stderr=log, text=True)

    def __enter__(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit("the service did not start:\n" + (self.folder / "serve.log").read_text()[-1500:])
        self.address = json.loads(line)["grpc"]
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=60)

    def bench(self, tenant, *load):
        """A load that a tenant sends, and where its figures will be."""
        out = self.folder / f"{tenant}.json"
        out.unlink(missing_ok=True)
        command = [BIN / "baton", "bench", "--server", self.address, "--runs", "1", "--eos", "mask",
                   "--input-tokens", self.options.input_tokens, "--output-tokens", self.options.output_tokens,
                   "--as-tenant", tenant, "--out", out, *load]
        return subprocess.Popen([*map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL), out

    def cpu(self):
        """Seconds that the service and the loads that have ended have computed."""
        loads = resource.getrusage(resource.RUSAGE_CHILDREN)
        return cpu_of(self.process.pid) + loads.ru_utime + loads.ru_stime

    def summaries(self):
        """What the router tells of every request that it has served, once it has ended."""
        with open(self.folder / "eos.jsonl.requests.jsonl") as lines:
            return [json.loads(line) for line in lines]


def random_model(folder):
    subprocess.run([BIN / "baton", "model", "make-random", folder / "model", "--layers", "1"], check=True,
                   stdout=subprocess.DEVNULL)
    return folder / "model"


def finish(run):
    """The figures of a load that has ended."""
    process, out = run
    process.wait(timeout=3600)
    if not out.exists():
        sys.exit(f"the load ended with {process.returncode} and without figures")
    return json.loads(out.read_text())


class Side:
    """What a felt in one of the two cases."""

    def __init__(self):
        self.ttfts, self.spans, self.failed, self.refused_of_b = [], [], 0, 0

    def told(self):
        return f"{told(self.ttfts)}, {self.failed} failed"

    def summaries(self, requests):
        """Those of a's requests."""
        return [request for request in requests if request["tenant"] == "a" and not request["error"]
                and any(begin <= request["timestamp"] <= end for begin, end in self.spans)]

    def add(self, other):
        self.ttfts += other.ttfts
        self.spans += other.spans
        self.failed += other.failed
        self.refused_of_b += other.refused_of_b


def at(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))]


def told(values):
    return f"{len(values)} requests, median {at(values, .5):.1f} ms, p99 {at(values, .99):.1f} ms"


def measure_a(service, load):
    side, begin = Side(), time.time()
    figures = finish(service.bench("a", *load))
    side.spans = [(begin, time.time())]
    side.ttfts = [1e3 * seconds for seconds in figures["ttfts"] if seconds]
    side.failed = figures["failed"]
    return side


def measure_round(number, service, options, capacity):
    load = ["--rate", f"{capacity / 10:.3f}", "--duration", f"{options.seconds}s"]
    alone = measure_a(service, [*load, "--seed", 2 * number])
    began, computed = time.monotonic(), service.cpu()
    flood = service.bench("b", "--rate", f"{3 * capacity:.3f}", "--duration", f"{options.seconds + 4}s",
                          "--seed", 1000 + number)
    time.sleep(2)
    beside = measure_a(service, [*load, "--seed", 2 * number + 1])
    beside.refused_of_b = finish(flood)["failed"]
    cores = (service.cpu() - computed) / (time.monotonic() - began)
    print(f"round {number}: alone {alone.told()}; beside b {beside.told()}; of b {beside.refused_of_b} were refused; "
          f"{cores:.2f} of {os.cpu_count()} cores were used beside b", flush=True)
    return alone, beside


def measure(service, options):
    clients = options.places
    capacity = finish(service.bench("a", "--concurrency", clients, "--requests", 20 * clients))["request_throughput"]
    print(f"capacity {capacity:.1f} requests/s", flush=True)
    alone, beside = Side(), Side()
    for number in range(options.rounds):
        for side, more in zip((alone, beside), measure_round(number, service, options, capacity)):
            side.add(more)
    return alone, beside


def tell_parts(name, requests):
    """Where the time to first token went, as the router saw it."""
    timings = [request["timings_ms"] for request in requests]
    for part, what in (("queue", "until its prompt was begun"), ("prefill", "from then to the first token"),
                       ("ttft", "together, at the router")):
        print(f"  {name}, {what}: {told([timing[part] for timing in timings])}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument("--device", action="store_true")
    parser.add_argument("--step-ms", type=int, help="with --device; 12")
    parser.add_argument("--token-us", type=int, help="with --device; 50")
    for name, value in (("rounds", 3), ("seconds", 60), ("places", 16)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--input-tokens", default="64")
    parser.add_argument("--output-tokens", default="64")
    parser.add_argument("--serve", default="", help="further flags of `baton serve`, in one word")
    options = parser.parse_args()
    if not options.device and (options.step_ms, options.token_us) != (None, None):
        parser.error("--step-ms and --token-us say how long a device of the workers' own takes: add --device")
    options.step_ms = 12 if options.step_ms is None else options.step_ms
    options.token_us = 50 if options.token_us is None else options.token_us
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        with Service(options, folder) as service:
            alone, beside = measure(service, options)
        requests = service.summaries()
        print(f"all: alone {alone.told()}; beside b {beside.told()}; "
              f"p99 {at(beside.ttfts, .99) / at(alone.ttfts, .99):.2f} times that alone")
        tell_parts("alone", alone.summaries(requests))
        tell_parts("beside b", beside.summaries(requests))


if __name__ == "__main__":
    main()
