"""What a tenant of little load feels of one that sends three times what the service can answer. Prints, asserts nothing.

  BATON_BIN=build/cpu/bin /usr/bin/python3 -B tests/e2e/tenants_bench.py [--model DIR] [--step-ms MS] [--rounds N]
      [--seconds S] [--places N] [--tokens T]

Tenant a sends a tenth of the capacity, tenant b three times the capacity and may have half of the places. The capacity is
measured first, by a closed loop of as many clients as there are places. Each round measures a alone and a beside b, in
turns. --step-ms makes each step of the workers so many milliseconds longer, as on a slower device: then it is
the device that the tenants share, and not the processors, on which router, workers and load generators compute, too.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from cluster import BIN

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


class Service:
    """`baton serve` with two workers, until the end of the block."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        flags = ["--port", "0", "--admin-port", "0", "--http-port", "0", "--eos-log", "off", "--load-cache", "off",
                 "--log-level", "error",
                 "--max-num-seqs", str(options.places), "--trust-tenant-header",
                 "--tenant", f"b:max-running={options.places // 2}"]
        environment = dict(os.environ)
        if options.step_ms:
            flags.append("--enable-failpoints")
            environment["BATON_FAILPOINT"] = f"stepping:delay_ms={options.step_ms}"
        with open(folder / "serve.log", "wb") as log:
            self.process = subprocess.Popen([BIN / "baton", "serve", options.model, *flags], env=environment,
                                            stdout=subprocess.PIPE, stderr=log, text=True)

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
                   "--input-tokens", self.options.tokens, "--output-tokens", self.options.tokens,
                   "--as-tenant", tenant, "--out", out, *load]
        return subprocess.Popen([*map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL), out


def finish(run):
    """The figures of a load that has ended."""
    process, out = run
    process.wait(timeout=3600)
    if not out.exists():
        sys.exit(f"the load ended with {process.returncode} and without figures")
    return json.loads(out.read_text())


def times(figures):
    """Times to first token of the requests that were answered, in ms."""
    return sorted(1e3 * seconds for seconds in figures["ttfts"] if seconds)


def at(values, share):
    return values[min(len(values) - 1, int(share * len(values)))]


def told(values):
    return f"{len(values)} requests, median {at(values, .5):.1f} ms, p99 {at(values, .99):.1f} ms"


def measure(service, options):
    clients = options.places
    capacity = finish(service.bench("a", "--concurrency", clients, "--requests", 20 * clients))["request_throughput"]
    print(f"capacity {capacity:.1f} requests/s", flush=True)
    load = ["--rate", f"{capacity / 10:.3f}", "--duration", f"{options.seconds}s"]
    alone, beside = [], []
    for number in range(options.rounds):
        quiet = finish(service.bench("a", *load, "--seed", 2 * number))
        flood = service.bench("b", "--rate", f"{3 * capacity:.3f}", "--duration", f"{options.seconds + 4}s")
        time.sleep(2)
        crowded = finish(service.bench("a", *load, "--seed", 2 * number + 1))
        refused = finish(flood)["failed"]
        print(f"round {number}: alone {told(times(quiet))}; beside b {told(times(crowded))}, {crowded['failed']} failed; "
              f"of b {refused} were refused", flush=True)
        alone += times(quiet)
        beside += times(crowded)
    return sorted(alone), sorted(beside)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", default=str(ROOT / "models/demo"))
    for name, value in (("step-ms", 0), ("rounds", 3), ("seconds", 60), ("places", 16), ("tokens", 64)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Service(options, pathlib.Path(folder)) as service:
        alone, beside = measure(service, options)
    print(f"all: alone {told(alone)}; beside b {told(beside)}; p99 {at(beside, .99) / at(alone, .99):.2f} times that alone")


if __name__ == "__main__":
    main()
