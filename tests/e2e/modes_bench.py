"""Split against unified mode under a mixed load at the same total threads; prints, asserts nothing.

  BATON_BIN=build/cpu/bin /usr/bin/python3 -B tests/e2e/modes_bench.py [--rate R] [--seconds S] [--rounds N]

A random Llama of 100 M parameters serves two kinds of requests that arrive by a Poisson process:
`chat` (64 tokens in, 64 out) and `document` (768 in, 16 out), three to one. Modes take turns. Times
are the client's: to the first token from the scheduled arrival, and between tokens.
"""

import argparse
import collections
import pathlib
import random
import statistics
import string
import subprocess
import tempfile
import threading
import time

import client
from cluster import BIN, Cluster

SHAPE = ["--layers", "12", "--hidden", "768", "--heads", "12", "--kv-heads", "4", "--head-dim", "64",
         "--ffn", "2048", "--vocab", "16000"]
KINDS = {"chat": (64, 64), "document": (768, 16)}
MODES = {
    "split: 1 prefill + 1 decode worker, 1 thread each": {"prefill": 1, "decode": 1, "threads": "1"},
    "unified: 1 worker, 2 threads": {"prefill": 0, "decode": 1, "threads": "2"},
    "unified: 2 workers, 1 thread each": {"prefill": 0, "decode": 2, "threads": "1"},
}


class Sample(collections.namedtuple("Sample", "kind ttft gaps")):
    """One request: milliseconds to the first token, and between one message and the next."""


def schedule(seed, rate, seconds):
    """(seconds from the start, kind, prompt) of each arrival; the same for every mode."""
    rng = random.Random(seed)
    now, arrivals = 0.0, []
    while (now := now + rng.expovariate(rate)) < seconds:
        kind = rng.choices(list(KINDS), weights=[3, 1])[0]
        prompt = "".join(rng.choices(string.ascii_lowercase, k=KINDS[kind][0] - 1))
        arrivals.append((now, kind, prompt))
    return arrivals


def ask(wire, kind, prompt, due, samples, failures):
    time.sleep(max(0.0, due - time.monotonic()))
    request = {"text": prompt, "spec": {"sampling": {"temperature": 0}, "stop": {
        "maxTokens": KINDS[kind][1], "eosPolicy": "EOS_POLICY_IGNORE_MASK"}}}
    first, last, gaps = None, None, []
    try:
        for message in wire.generate(request):
            if not message.HasField("delta"):
                continue
            now = time.monotonic()
            if first is None:
                first = now
            else:
                gaps.append((now - last) * 1e3)
            last = now
        samples.append(Sample(kind, (first - due) * 1e3, gaps))
    except Exception as error:  # counted and shown, whatever it is
        failures.append(error)


def run(model, mode, arrivals):
    cluster = Cluster(model=model, prefill=mode["prefill"], decode=mode["decode"])
    cluster.flags = ["--threads", mode["threads"], "--kv-cache-memory", "512MiB",
                     "--max-model-len", "1024"]
    samples, failures = [], []
    with cluster as service:
        wire = client.Client(service.router.grpc)
        for kind in KINDS:  # everything is warm before the clock starts
            ask(wire, kind, "w" * (KINDS[kind][0] - 1), time.monotonic(), [], failures)
        start = time.monotonic() + 0.5
        threads = [threading.Thread(target=ask, args=(wire, kind, prompt, start + at, samples, failures))
                   for at, kind, prompt in arrivals]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        wire.close()
    return samples, failures


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rate", type=float, default=2.0, help="requests per second")
    parser.add_argument("--seconds", type=float, default=30, help="of arrivals in a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    figures = collections.defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder) / "model"
        subprocess.run([str(BIN / "baton"), "model", "make-random", str(model), *SHAPE], check=True)
        for turn in range(options.rounds):
            arrivals = schedule(options.seed + turn, options.rate, options.seconds)
            for name, mode in MODES.items():
                samples, failures = run(model, mode, arrivals)
                if failures:
                    print(f"{name}: {len(failures)} of {len(arrivals)} failed: {failures[0]}")
                for kind in KINDS:
                    mine = [s for s in samples if s.kind == kind]
                    ttft = [s.ttft for s in mine]
                    gaps = [gap for s in mine for gap in s.gaps]
                    figures[name, kind].append([percentile(ttft, 0.5), percentile(ttft, 0.99),
                                                percentile(gaps, 0.5), percentile(gaps, 0.99)])
    print(f"{options.rate} requests/s, {options.rounds} rounds of {options.seconds} s, medians of rounds, ms")
    print(f"{'mode':50} {'kind':9} {'TTFT p50':>9} {'p99':>7} {'gap p50':>8} {'p99':>7}")
    for (name, kind), rows in figures.items():
        medians = [statistics.median(column) for column in zip(*rows)]
        print(f"{name:50} {kind:9} {medians[0]:9.1f} {medians[1]:7.1f} {medians[2]:8.2f} {medians[3]:7.1f}")


if __name__ == "__main__":
    main()
