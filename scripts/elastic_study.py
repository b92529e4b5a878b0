#!/usr/bin/env python3
"""Asks `baton sim` what two ideas would give before anybody builds them; docs/elastic.md has the answers.

    scripts/elastic_study.py roles --traces DIR [--bin build/cpu/bin] [--seeds 5] [--jobs 2] [--out FILE]
    scripts/elastic_study.py timing --traces DIR ...
    scripts/elastic_study.py rates --traces DIR ...

`roles`: a load that turns from long prompts to long answers and back, served by fixed splits of six GPUs, which hand
every prompt over or only those for which that costs less, by six that prefill and decode, and by six that change
their role. `timing`: when a prompt is computed, before or after the decode worker has a place for it. `rates`: the
highest rate that sustains, where a hand-off could matter. Prints markdown tables: means over the seeds with half of a
95 % interval.
"""

import argparse
import concurrent.futures
import csv
import datetime
import json
import math
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "analysis"))
from baton_analysis import intervals  # noqa: E402

# An 8B model of 16-bit weights on an H100 SXM, reckoned from its data sheet: 16 GB of weights and 131072 bytes
# of K and V per token at 80 % of 3.35 TB/s; 16 GFLOP per token at 55 %, and 524288 FLOP per product of a query
# with a key at 40 %, of 989 TFLOP/s; a millisecond per step and 4 us per row of the host.
COST = {"step": 7000, "row": 4, "prompt_token": 29.5, "kv_token": 0.0489, "attention_product": 0.00132}
KV_TOKENS = 400_000  # what 80 GB leave beside the weights


def refuse(why):
    print(f"elastic_study: {why}", file=sys.stderr)
    sys.exit(2)


class Mix:
    """Lengths of requests, drawn with the generator that is given."""

    def __init__(self, name, pairs):
        self.name, self.pairs = name, pairs
        self.input = statistics.fmean(p for p, _ in pairs)
        self.output = statistics.fmean(a for _, a in pairs)
        self.products = statistics.fmean(p * (p + 1) / 2 for p, _ in pairs)
        self.held = statistics.fmean(a * (p + a / 2) for p, a in pairs)  # KV tokens read

    @classmethod
    def of_trace(cls, path):
        try:
            with open(path, newline="") as rows:
                pairs = [(int(r["ContextTokens"]), int(r["GeneratedTokens"])) for r in csv.DictReader(rows)]
        except (OSError, KeyError, ValueError, TypeError) as error:
            refuse(f"{path} is no trace: {error!r}; expected the columns ContextTokens and GeneratedTokens; --traces names "
                   "the folder of the Azure traces of 2023")
        pairs = [(p, a) for p, a in pairs if p + a <= 8000 and a > 0]
        return cls(path.stem, pairs) if pairs else refuse(f"{path} has no request of at most 8000 tokens with an answer")

    @classmethod
    def lognormal(cls, name, prompt, answer, sigma):
        draw = random.Random(name)
        one = lambda mean: max(1, min(4000, round(draw.lognormvariate(math.log(mean) - sigma**2 / 2, sigma))))
        return cls(name, [(one(prompt), one(answer)) for _ in range(20_000)])

    def prefill_s(self):
        return 1e-6 * (COST["step"] * self.input / 2048 + COST["prompt_token"] * self.input
                       + COST["attention_product"] * self.products)

    def decode_s(self, rows):
        """Of a worker's time, when its steps hold so many rows."""
        return 1e-6 * ((COST["step"] / rows + COST["row"]) * self.output + COST["kv_token"] * self.held)


def write_trace(path, seed, phases):
    """`phases`: (mix, requests per second, seconds); Poisson within each."""
    draw = random.Random(seed)
    start, begin = datetime.datetime(2000, 1, 1), 0.0
    with open(path, "w", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(["TIMESTAMP", "ContextTokens", "GeneratedTokens"])
        for mix, rate, seconds in phases:
            at = begin
            while (at := at + draw.expovariate(rate)) < begin + seconds:
                rows.writerow([(start + datetime.timedelta(seconds=at)).strftime("%Y-%m-%d %H:%M:%S.%f"),
                               *draw.choice(mix.pairs)])
            begin += seconds


def simulate(bin_dir, cost, trace, flags):
    command = [str(bin_dir / "baton"), "sim", "--step-cost", str(cost), "--trace", str(trace), "--json",
               "--async-scheduling", "--no-enable-prefix-caching", "--max-num-queued-reqs", "20000", *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nfailed: {done.stderr}")
    return json.loads(done.stdout)["policies"][0]["runs"][0]


def cell(values, digits=1):
    text = f"{statistics.fmean(values):.{digits}f}"
    if len(values) > 1:
        text += f" ± {intervals.half(values):.{digits}f}"
    return text


class Study:
    """Runs of one question, a few at a time; each (trace, flags) once."""

    def __init__(self, args, folder):
        self.args, self.folder = args, pathlib.Path(folder)
        self.cost = self.folder / "cost.json"
        self.cost.write_text(json.dumps({"schema": "baton.step_cost/1", "us": COST}))
        self.pool = concurrent.futures.ThreadPoolExecutor(args.jobs)
        self.record, self.writing = [], threading.Lock()

    def mixes(self):
        traces = self.args.traces
        return {"code": Mix.of_trace(traces / "code.csv"), "conv": Mix.of_trace(traces / "conv.csv"),
                "answers": Mix.lognormal("answers", 200, 600, 0.6), "long": Mix.lognormal("long", 3500, 200, 0.3)}

    def trace(self, name, seed, phases):
        trace = self.folder / f"{name}-{seed}.csv"
        with self.writing:
            if not trace.exists():
                write_trace(trace, seed, phases)
        return trace

    def run(self, name, seed, phases, flags):
        figures = simulate(self.args.bin, self.cost, self.trace(name, seed, phases), [*flags, "--seed", str(seed)])
        self.record.append({"name": name, "seed": seed, "flags": flags, "figures": figures})
        return figures

    def over_phases(self, name, phases, flags):
        """Futures, of a run per seed."""
        return [self.pool.submit(self.run, name, seed, phases, flags) for seed in range(1, self.args.seeds + 1)]

    def over_seeds(self, mix, rate, flags):
        return self.over_phases(f"{mix.name}-{rate:.2f}", [(mix, rate, self.args.seconds)], flags)

    def sustained(self, mix, fluid, flags):
        """Futures of the highest rate at which 95 % of the requests keep the SLO, to about a percent of `fluid`.
        One seed draws the same lengths at every rate."""
        def search(seed):
            low, high = 0.7, 1.1
            while high - low > 0.015:
                share_of_fluid = (low + high) / 2
                phases = [(mix, share_of_fluid * fluid, self.args.seconds)]
                kept = self.run(f"{mix.name}-{share_of_fluid * fluid:.3f}", seed, phases, flags)["goodput_share"]
                low, high = (share_of_fluid, high) if kept >= 0.95 else (low, share_of_fluid)
            return low * fluid
        return [self.pool.submit(search, seed) for seed in range(1, self.args.seeds + 1)]


def results(futures):
    return [future.result() for future in futures]


def share(runs):
    return [100 * run["goodput_share"] for run in runs]


# --- When a prompt is computed -----------------------------------------------------------------------------

# A mix, its GPUs (prefill, decode), the seats and the KV tokens of a decode worker, and the SLO. The last two have
# what a hand-off holds in short supply: seats, and KV as a model has that fills the memory with its weights.
TIMING = [
    ("conv", 4, 2, 256, KV_TOKENS, "ttft=1s,tpot=50ms"),
    ("conv", 3, 3, 64, KV_TOKENS, "ttft=1s,tpot=25ms"),
    ("code", 5, 1, 256, KV_TOKENS, "ttft=1s,tpot=50ms"),
    ("long", 3, 1, 256, KV_TOKENS, "ttft=2s,tpot=50ms"),
    ("answers", 1, 5, 256, KV_TOKENS, "ttft=1s,tpot=50ms"),
    ("code", 5, 1, 24, KV_TOKENS, "ttft=1s,tpot=20ms"),
    ("long", 2, 1, 256, 60_000, "ttft=2s,tpot=20ms"),
]


def rows_of(mix, seats, kv_tokens):
    """How many sequences of the mix decode beside each other."""
    return min(seats, kv_tokens / (mix.held / mix.output + 16))


def timing(study):
    mixes = study.mixes()
    print("| load | GPUs, seats, KV | GB/s | share of capacity | TTFT mean, ms: served | bound | end to end: served | bound "
          "| goodput, %: served | bound |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for where, mix, fluid, flags in settings_of(TIMING, mixes, (10, 50)):
        for load in (0.7, 0.85, 0.95):
            runs = [study.over_seeds(mix, load * fluid, [*flags, "--handoff-timing", how])
                    for how in ("place", "at-once")]
            served, bound = map(results, runs)
            cells = [cell([run[what]["mean"] for run in of], 0)
                     for what in ("ttft_ms", "e2e_ms") for of in (served, bound)]
            print(f"| {where} | {100 * load:.0f} % | {' | '.join(cells)} | {cell(share(served))} "
                  f"| {cell(share(bound))} |", flush=True)


def settings_of(rows, mixes, bandwidths):
    """What stands in a row, the mix, the requests per second that its bottleneck can do, and the flags."""
    for mix_name, prefill, decode, seats, kv_tokens, slo in rows:
        mix = mixes[mix_name]
        fluid = min(prefill / mix.prefill_s(), decode / mix.decode_s(rows_of(mix, seats, kv_tokens)))
        for bandwidth in bandwidths:
            flags = ["--prefill", str(prefill), "--decode", str(decode), "--max-num-seqs", str(seats), "--slo", slo,
                     "--handoff-bandwidth", str(bandwidth * 10**9), "--kv-cache-tokens", str(kv_tokens)]
            place = f"{prefill} + {decode}, {seats}, {kv_tokens // 1000}k"
            yield f"{mix_name} | {place} | {bandwidth}", mix, fluid, flags


def rates(study):
    expected = [["--handoff-timing", "expected", "--predictor", who] for who in ("off", "learnt", "oracle")]
    print("| load | GPUs, seats, KV | GB/s | served, requests/s | bound, gain in % | no predictor | learnt | oracle |")
    print("|---|---|---|---|---|---|---|---|")
    for where, mix, fluid, flags in settings_of([*TIMING[:-3:-1], TIMING[2], TIMING[0]], study.mixes(), (10,)):
        def gains(*hows):
            found = [study.sustained(mix, fluid, [*flags, *how]) for how in hows]
            return [cell([100 * (b / a - 1) for a, b in zip(served, results(one))]) for one in found]
        served = results(study.sustained(mix, fluid, [*flags, "--handoff-timing", "place"]))
        bound = gains(["--handoff-timing", "at-once"])
        rest = gains(*expected) if float(bound[0].split()[0]) >= 1 else ["", "", ""]
        print(f"| {where} | {cell(served)} | {' | '.join(bound + rest)} |", flush=True)


# --- Workers that change their role ------------------------------------------------------------------------

GPUS = 6
# With fewer prefill workers nearly every long prompt is late, at every one of these loads.
SPLITS = {f"{p} + {GPUS - p}": ["--prefill", str(p), "--decode", str(GPUS - p)] for p in (3, 4, 5)}
BY_COST = {name: [*flags, "--local-prefill-below", "auto"] for name, flags in SPLITS.items()}
UNIFIED = {f"chunks of {chunk}": ["--decode", str(GPUS), "--max-prefill-tokens", str(chunk),
                                  "--max-num-batched-tokens", str(chunk + 256)] for chunk in (1024, 2048)}
ELASTIC = ["--prefill", "3", "--decode", "3", "--elastic"]


def roles(study):
    mixes = study.mixes()
    turns = [mixes["code"], mixes["answers"]] * 2
    print("| SLO | share of capacity | best fixed split | goodput, % | best by cost | goodput, % | elastic, goodput, % "
          "| gain, % | gain on by cost, % | changes | best unified | goodput, % |\n" + "|---" * 12 + "|")
    for load in (0.5, 0.6, 0.7):
        for slo in ("ttft=1s,tpot=50ms", "ttft=1s,tpot=20ms"):
            phases = [(mix, load * GPUS / (mix.prefill_s() + mix.decode_s(256)), study.args.seconds / 2)
                      for mix in turns]
            def start(flags):
                return study.over_phases(f"turns-{load}", phases, [
                    "--max-num-seqs", "256", "--kv-cache-tokens", str(KV_TOKENS),
                    "--handoff-bandwidth", str(20 * 10**9), "--slo", slo, *flags])
            fixed = {name: start(flags) for name, flags in SPLITS.items()}
            by_cost = {name: start(flags) for name, flags in BY_COST.items()}
            unified = {name: start(flags) for name, flags in UNIFIED.items()}
            elastic = results(start(ELASTIC))
            split, best = best_of(fixed)
            chosen, local = best_of(by_cost)
            chunks, mixed = best_of(unified)
            def gain(over):
                return [100 * (e["goodput_share"] / f["goodput_share"] - 1) for e, f in zip(elastic, over)]
            changes = [run["role_changes"] for run in elastic]
            print(f"| {slo} | {100 * load:.0f} % | {split} | {cell(share(best))} | {chosen} | {cell(share(local))} "
                  f"| {cell(share(elastic))} | {cell(gain(best), 0)} | {cell(gain(local), 0)} | {cell(changes, 0)} "
                  f"| {chunks} | {cell(share(mixed))} |", flush=True)


def best_of(futures_of):
    runs = {name: results(futures) for name, futures in futures_of.items()}
    name = max(runs, key=lambda name: statistics.fmean(share(runs[name])))
    return name, runs[name]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question", choices=["roles", "timing", "rates"])
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/cpu/bin", help="where baton is")
    parser.add_argument("--traces", type=pathlib.Path, required=True,
                        help="the Azure traces of 2023: code.csv and conv.csv")
    parser.add_argument("--seeds", type=int, default=5, choices=range(2, 11), help="one run for each")
    parser.add_argument("--seconds", type=float, default=60, help="of a load, or of each of its phases")
    parser.add_argument("--jobs", type=int, default=2, help="simulations at a time")
    parser.add_argument("--out", type=pathlib.Path, help="all figures of all runs, as JSON")
    args = parser.parse_args()
    if args.seconds < 1 or args.jobs < 1:
        parser.error("expected --seconds and --jobs from 1")
    if not (args.bin / "baton").is_file():
        refuse(f"no program {args.bin / 'baton'}; build it, or name its folder by --bin")
    with tempfile.TemporaryDirectory() as folder:
        study = Study(args, folder)
        {"roles": roles, "timing": timing, "rates": rates}[args.question](study)
        if args.out:
            args.out.write_text(json.dumps(study.record))


if __name__ == "__main__":
    main()
