"""Two builds under the same load, by turns; prints, asserts nothing.

  BATON_BIN=build/cpu/bin /usr/bin/python3 -B tests/e2e/builds_bench.py --before DIR [--model DIR] [--ways unified,split]
      [--threads N] [--concurrency 1,8,32] [--rounds N]

`--before` is the folder with the other build's binaries. In each round both builds start a service of their own, and one
`baton bench`, that of BATON_BIN, asks them in turn for answers of a fixed length. Of each load: what this build does
beside the other, as the median over the rounds of the ratio of a round's two runs, with the quartiles.
"""

import argparse
import contextlib
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import cluster

FIGURES = {"tokens/s": "output_throughput", "TTFT": "mean_ttft_ms", "TPOT": "mean_tpot_ms"}


def start(stack, folder, way, options):
    cluster.BIN = pathlib.Path(folder)
    return stack.enter_context(
        cluster.Cluster(options.model, prefill=1 if way == "split" else 0, eos_log=False,
                        flags=["--threads", options.threads, "--kv-cache-tokens", "32768"]))


def load(server, concurrency, options, folder, seed):
    out = pathlib.Path(folder) / "result.json"
    run = subprocess.run(
        [options.bench, "bench", "--server", server, "--concurrency", str(concurrency), "--duration", options.duration,
         "--runs", "1", "--seed", str(seed), "--input-tokens", options.input_tokens, "--output-tokens",
         options.output_tokens, "--eos", "mask", "--out", str(out)],
        check=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if run.returncode != 0:
        sys.exit(f"baton bench exited with {run.returncode}:\n{run.stderr}")
    figures = json.loads(out.read_text())
    return {name: figures[key] for name, key in FIGURES.items()}


def one_round(turn, way, this, options, folder):
    """The figures of each load by build, of services that start for this round: where a process finds its memory
    makes more of a difference than most changes do."""
    seen = {concurrency: {} for concurrency in options.concurrency.split(",")}
    builds = [("before", options.before), ("this", this)]
    with contextlib.ExitStack() as stack:
        services = {name: start(stack, bins, way, options) for name, bins in builds[::1 - 2 * (turn % 2)]}
        for concurrency, figures in seen.items():
            for name in sorted(services, reverse=turn // 2 % 2 == 1):
                figures[name] = load(services[name].router.grpc, concurrency, options, folder, 1 + turn)
    return seen


def show(way, concurrency, rounds):
    line = f"{way:8} {concurrency:>4}"
    for figure in FIGURES:
        ratios = [seen[concurrency]["this"][figure] / seen[concurrency]["before"][figure] for seen in rounds]
        low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
        before = statistics.median(seen[concurrency]["before"][figure] for seen in rounds)
        line += f" | {before:9.2f} {middle:6.3f} ({low:.3f}-{high:.3f})"
    print(line, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--before", required=True, metavar="DIR")
    parser.add_argument("--model", default=cluster.DEMO_MODEL, metavar="DIR")
    parser.add_argument("--ways", default="unified,split")
    parser.add_argument("--threads", default="1")
    parser.add_argument("--concurrency", default="1,8,32")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--duration", default="3s", help="of one run")
    parser.add_argument("--input-tokens", default="64")
    parser.add_argument("--output-tokens", default="64")
    options = parser.parse_args()
    if options.rounds < 4 or options.rounds % 4 != 0:
        parser.error(f"--rounds {options.rounds}; expected a multiple of 4, so that each build is first as often as the other")
    for binary in ("baton-router", "baton-decode", "baton-prefill"):
        if not (pathlib.Path(options.before) / binary).is_file():
            parser.error(f"--before {options.before} has no {binary}; expected the bin folder of a build")
    this, options.bench = cluster.BIN, str(cluster.BIN / "baton")
    print(f"{'way':8} {'load':>4} | " + " | ".join(f"{name + ' before, this':28}" for name in FIGURES))
    for way in options.ways.split(","):
        with tempfile.TemporaryDirectory() as folder:
            rounds = [one_round(turn, way, this, options, folder) for turn in range(options.rounds)]
        for concurrency in options.concurrency.split(","):
            show(way, concurrency, rounds)


if __name__ == "__main__":
    main()
