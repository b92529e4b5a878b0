"""The demo model's answers with and without speculation; prints, asserts nothing.

  BATON_BIN=build/cpu/bin /usr/bin/python3 -B tests/e2e/speculation_bench.py [--draft DIR] [--threads N] [--rounds N]

One unified worker for each way of foretelling, which take turns under the same load of `baton bench`, prompts of one of
the model's families at a time. Of each: output tokens per second, and how much of what was foretold was drawn.
"""

import argparse
import contextlib
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

from cluster import BIN, Cluster, DEMO_MODEL

sys.path.insert(0, str(pathlib.Path(DEMO_MODEL).resolve()))
from corpus import MAKERS, chat_prompt  # noqa: E402

SPEC = "baton_spec_decode_num_"


def ways_of(options):
    ways = {"none": [], "ngram": ["--speculative", "ngram"]}
    for draft in options.draft:
        ways[f"draft {pathlib.Path(draft).name}"] = ["--draft-model", draft]
    return ways


def write_prompts(path, family, count, seed):
    rng = random.Random(f"{seed}/{family}")
    prompts = (chat_prompt([MAKERS[family](rng)]) for _ in range(count))
    path.write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts))


class Figures:
    """What a worker has foretold since the last look."""

    def __init__(self, worker):
        self.worker, self.last = worker, None

    def since(self):
        page = self.worker.metrics()
        now = [page.sum(SPEC + name) for name in ("drafts_total", "draft_tokens_total", "accepted_tokens_total")]
        past, self.last = self.last or [0] * 3, now
        return [a - b for a, b in zip(now, past)]


def load(cluster, prompts, concurrency, requests, seed):
    """Output tokens per second, and mean time per token in ms."""
    out = prompts.with_suffix(".result.json")
    subprocess.run(
        [str(BIN / "baton"), "bench", "--server", cluster.router.grpc, "--prompts", str(prompts), "--concurrency",
         str(concurrency), "--requests", str(requests), "--runs", "1", "--seed", str(seed), "--output-tokens", "300",
         "--out", str(out)],
        check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    figures = json.loads(out.read_text())
    return figures["output_throughput"], figures["mean_tpot_ms"]


def measure(services, options, prompts, concurrency):
    rows = {name: [] for name in services}
    for turn in range(options.rounds):
        names = list(services)
        for name in names[turn % len(names):] + names[:turn % len(names)]:
            cluster, figures = services[name]
            figures.since()
            rate, tpot = load(cluster, prompts, concurrency, options.requests, options.seed + turn)
            rows[name].append((rate, tpot, *figures.since()))
    return rows


def show(family, concurrency, rows):
    plain = [rate for rate, *_ in rows["none"]]
    for name, runs in rows.items():
        rates, tpots, drafts, foretold, drawn = zip(*runs)
        ratio = statistics.median(rate / base for rate, base in zip(rates, plain))
        line = (f"{family:8} {concurrency:4} {name:24} {statistics.median(rates):9.0f} {ratio:6.2f} "
                f"{statistics.median(tpots):8.3f}")
        if sum(drafts) > 0:
            line += f" {100 * sum(drawn) / sum(foretold):7.0f} % {1 + sum(drawn) / sum(drafts):8.2f}"
        print(line, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--draft", action="append", default=[], metavar="DIR", help="a draft model; may be repeated")
    parser.add_argument("--threads", default="1")
    parser.add_argument("--families", default="echo,json,list,story")
    parser.add_argument("--concurrency", default="1,8")
    parser.add_argument("--requests", type=int, default=100, help="of one run")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        services = {}
        for name, flags in ways_of(options).items():
            cluster = stack.enter_context(
                Cluster(prefill=0, flags=["--threads", options.threads, *flags], eos_log=False))
            services[name] = cluster, Figures(cluster.decode[0])
        print(f"{'family':8} {'way':>4} {'':24} {'tokens/s':>9} {'ratio':>6} {'TPOT ms':>8} {'drawn':>9} {'per row':>8}")
        for family in options.families.split(","):
            prompts = pathlib.Path(folder) / f"{family}.jsonl"
            write_prompts(prompts, family, options.requests, options.seed)
            for concurrency in options.concurrency.split(","):
                show(family, concurrency, measure(services, options, prompts, concurrency))


if __name__ == "__main__":
    main()
