"""More clients than places: is anybody overtaken? Prints, asserts nothing.

  BATON_BIN=build/cpu/bin /usr/bin/python3 -B tests/e2e/overload_bench.py [--routers R] [--decode D]
      [--prefill P] [--places N] [--concurrency C] [--requests N] [--input-tokens I] [--output-tokens O]

Every router has a `baton bench` of its own with C clients and N requests. Times are the router's,
from its summaries of requests. A request is overtaken by one that arrived later at the same router and
whose prompt began to be computed sooner, or whose first token came sooner; where several workers
are not equally fast, the latter says more about them than about the queue.
"""

import argparse
import collections
import json
import re
import subprocess
import tempfile

from cluster import BIN, Cluster

COMPLAINT = re.compile(r"[-\d]+ [:.\d]+ ([WEC] .*)")


def attempts(router):
    """The attempts of a router that runs, by how they ended."""
    ended = collections.Counter()
    for series, labels, value in router.metrics().series:
        if series == "baton_attempts_total":
            ended[labels["outcome"]] += int(value)
    return +ended


class Figures:
    """What one router's log and metrics say; `ended` are its attempts."""

    def __init__(self, router, log, ended):
        summaries = log.with_name(log.name + ".requests.jsonl")
        rows = [json.loads(line) for line in summaries.read_text().splitlines()]
        rows.sort(key=lambda row: row["timestamp"])
        self.failed = sum(row["error"] is not None for row in rows)
        rows = [row for row in rows if row["error"] is None]
        self.arrived = [row["timestamp"] for row in rows]
        self.ttft = [row["timings_ms"]["ttft"] / 1e3 for row in rows]
        self.extra_attempts = sum(max(0, row["attempts"] - 1) for row in rows)
        self.queue = [row["timings_ms"]["queue"] / 1e3 for row in rows]
        # Those in which nothing broke do not count as a request's `attempts`.
        self.in_vain = {outcome: count for outcome, count in ended.items()
                        if outcome not in ("finished", "released")}
        lines = router.log.read_text(errors="replace").splitlines()
        self.complaints = [found[1] for found in map(COMPLAINT.match, lines) if found]

    def overtaken(self, waits):
        """By how many each request was overtaken on its way to what came so long after its arrival."""
        came = [arrived + wait for arrived, wait in zip(self.arrived, waits)]
        return [sum(later < this for later in came[at + 1:]) for at, this in enumerate(came)]

    def line(self, places):
        ttft = sorted(self.ttft)
        parts = [f"{len(ttft)} answers, {self.failed} failed, {self.extra_attempts} extra attempts, "
                 f"attempts in vain {self.in_vain}, {len(self.complaints)} warnings"]
        for what, waits in (("prompts", self.queue), ("first tokens", self.ttft)):
            overtaken = self.overtaken(waits)
            parts.append(f"overtaken by {max(overtaken, default=0)} {what} at most "
                         f"({sum(count > places for count in overtaken)} by more than {places})")
        parts.append(f"first token after {sum(ttft) / len(ttft):.2f} s in the mean, "
                     f"{ttft[int(0.99 * (len(ttft) - 1))]:.2f} s at p99; "
                     f"queue {sum(self.queue) / len(ttft):.2f} s")
        return "; ".join(parts)


def bench(router, options):
    output = tempfile.TemporaryFile("w+", encoding="utf-8")
    arguments = [BIN / "baton", "bench", "--server", router.grpc, "--runs", "1", "--eos", "mask",
                 "--concurrency", options.concurrency, "--requests", options.requests,
                 "--input-tokens", options.input_tokens, "--output-tokens", options.output_tokens]
    return subprocess.Popen([*map(str, arguments)], stdout=output, stderr=subprocess.STDOUT), output


def measure(options):
    """Runs the load; the figures of each router."""
    flags = ["--max-num-seqs", str(options.places), "--kv-cache-memory", "1GiB"]
    # Each request of the load ignores EOS, of which a router would warn.
    with Cluster(decode=options.decode, prefill=options.prefill, flags=flags,
                 router_flags=["--ignore-eos", "allow"]) as cluster:
        routers = [cluster.router]
        logs = [cluster.eos_log]
        try:
            for number in range(1, options.routers):
                routers.append(cluster.spawn_router(f"router-{number}").wait_ready())
                logs.append(cluster.path / f"router-{number}.jsonl")
                cluster.wait_routable(routers[-1])
            runs = [bench(router, options) for router in routers]
            for run, output in runs:
                code = run.wait(timeout=3600)
                output.seek(0)
                if code != 0:
                    print(output.read())
                output.close()
            ended = [attempts(router) for router in routers]
            for router in routers:  # before the workers, of whose end they would warn
                router.terminate()
            figures = [Figures(*of_one) for of_one in zip(routers, logs, ended)]
        finally:
            for router in routers[1:]:
                router.kill()
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    for name, value in (("routers", 1), ("decode", 1), ("prefill", 0), ("places", 64), ("concurrency", 300),
                        ("requests", 900), ("input-tokens", 512), ("output-tokens", 512)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    places = options.places * options.decode
    figures = measure(options)
    for number, one in enumerate(figures):
        print(f"router {number}: {one.line(places)}")
        for complaint in one.complaints[:20]:
            print(f"  {complaint}")
    means = [sum(one.queue) / len(one.queue) for one in figures]
    if len(means) > 1:
        print(f"mean waits: {', '.join(f'{mean:.2f} s' for mean in means)}; "
              f"largest / smallest {max(means) / min(means):.2f}")


if __name__ == "__main__":
    main()
