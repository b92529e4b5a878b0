#!/usr/bin/env python3
"""Measures the workers' policies on a service: the demo model, its own kinds of prompts, answers of natural length.

Serves the model once per policy (`baton serve`, one unified worker) with so small a KV pool that requests wait or are
preempted, and asks each service in turn at the same arrivals, prompts and seeds, so that all give the same answers.
Each round begins with another policy; before it the capacity under the first policy is measured anew, because that of a
machine which does other things drifts. Prints what all services had while they were asked, and how much of the machine
others took. `--step-ms` makes each step longer by so much, as on a slower device: then it is that device which is short,
and not the processors, which others use too; 0 leaves steps as they are.

    scripts/scheduling_service.py [--policies fcfs,past-future,remaining,boost] [--loads 0.7,0.85,0.95]
        [--rounds 5] [--seconds 6] [--step-ms 4] [--limits one|own] [--out FILE.json]

A policy may name its predictor: `remaining:off` foresees nothing, `remaining:learnt` only by lengths that were served;
otherwise it is `auto`, the file of the model. `--limits own` lets every kind of prompt have a max_tokens of its own, as
clients have who know what they ask for; by that lengths are told apart before the first token.
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

from scheduling_figures import better, cell, compare, median, percentile, rate_of_most, run_figures, table

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEMO = ROOT / "models/demo"
START_S = 120
MAX_TOKENS = 512
OWN_LIMITS = {"story": 512, "endless": 512, "answer": 128, "list": 256, "count": 256, "json": 128, "echo": 64, "talk": 128}
CALM_S = 8  # of the load that the limits are taken from
ROUNDS_OF_SEATS = 4
SAMPLE_S = 0.1
# The service runs here; no proxy of the environment leads to it.
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def say(text):
    print(text, file=sys.stderr, flush=True)


def metric(page, name, **labels):
    """The sum of the series of a metrics page that have these labels."""
    total = 0.0
    for line in page.splitlines():
        if line.startswith(name + "{") and all(f'{key}="{value}"' in line for key, value in labels.items()):
            total += float(line.rpartition(" ")[2])
    return total


def read(address):
    with DIRECT.open(f"http://{address}/metrics", timeout=10) as page:
        return page.read().decode()


def cpu_of(pids):
    """Seconds that these processes have computed."""
    ticks = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def cpu_of_machine():
    fields = [int(f) for f in pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    idle = fields[3] + fields[4]
    return (sum(fields) - idle) / os.sysconf("SC_CLK_TCK")


class Service:
    """`baton serve` with one policy, until the end of the block."""

    def __init__(self, name, options, folder):
        self.name = name
        policy, _, predictor = name.partition(":")
        model = untaught(folder) if predictor == "learnt" else DEMO
        flags = {"policy": policy, "max-num-seqs": options.seats, "kv-cache-tokens": options.pool,
                 "threads": options.threads, "max-num-queued-reqs": 4096}
        if predictor == "off":
            flags["predictor"] = "off"
        self.environment = dict(os.environ, GOMP_SPINCOUNT="1000")
        if options.step_ms > 0:
            flags |= {"enable-failpoints": "true", "log-level": "error"}  # each step would have a line
            self.environment["BATON_FAILPOINT"] = f"stepping:delay_ms={options.step_ms}"
        self.log = folder / f"{name}.log"
        self.command = [options.binary, "serve", str(model), "--mode", "unified", "--decode", "1", "--port", "0",
                        "--admin-port", "0", "--http-port", "0", "--eos-log", "off", "--load-cache", "off",
                        *(f"--{key}={value}" for key, value in flags.items())]

    def __enter__(self):
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", *self.command], stdin=subprocess.DEVNULL,
                                            stdout=subprocess.PIPE, stderr=log, text=True, env=self.environment)
        line = self.process.stdout.readline()
        if not line:
            self.process.wait(START_S)
            sys.exit(f"{' '.join(self.command)}\ndid not start; its log ends:\n" + self.log.read_text()[-1500:])
        ready = json.loads(line)
        self.grpc, self.router = ready["grpc"], ready["admin"]
        self.worker = ready["workers"][0]["admin"]
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        self.pids = [self.process.pid, *map(int, children)]
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def untaught(folder):
    """The model without its predictor's file."""
    model = folder / "untaught"
    if not model.exists():
        shutil.copytree(DEMO, model, ignore=shutil.ignore_patterns("eos_predictor.json", "*.py", "__pycache__"))
    return model


class Watch:
    """What a service's pages say, read often while the block lasts; and who used the machine."""

    def __init__(self, service, pids):
        self.service, self.pids = service, pids
        self.samples, self.over = [], threading.Event()
        self.thread = threading.Thread(target=self.sample)

    def sample(self):
        while True:
            page = read(self.service.worker)
            waiting = metric(read(self.service.router), "baton_num_requests_waiting")
            if metric(page, "baton_num_requests_running") > 0:
                self.samples.append((metric(page, "baton_kv_cache_usage_perc"), waiting))
            if self.over.wait(SAMPLE_S):
                return

    def counts(self):
        worker, router = read(self.service.worker), read(self.service.router)
        fed = metric(worker, "baton_iteration_tokens_sum")
        ended = metric(router, "baton_request_success_total")
        # Without a preemption all but the last token of each request is fed once, but for what a cache held.
        once = (metric(router, "baton_prompt_tokens_total") + metric(router, "baton_generation_tokens_total") - ended
                - metric(worker, "baton_prompt_tokens_by_source_total", source="local_cache_hit"))
        return {"preemptions": metric(worker, "baton_num_preemptions_total"), "recomputed": fed - once}

    def used(self):
        bench = resource.getrusage(resource.RUSAGE_CHILDREN)
        own = resource.getrusage(resource.RUSAGE_SELF)
        return cpu_of(self.pids) + sum(each.ru_utime + each.ru_stime for each in (bench, own))

    def __enter__(self):
        self.before, self.cpu, self.machine, self.began = self.counts(), self.used(), cpu_of_machine(), time.monotonic()
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        lasted = time.monotonic() - self.began
        self.others = max(0.0, cpu_of_machine() - self.machine - (self.used() - self.cpu)) / lasted

    def figures(self):
        after = self.counts()
        return {**{key: after[key] - self.before[key] for key in after},
                "kv_p95": percentile([kv for kv, _ in self.samples], 0.95),
                "waiting_p95": percentile([waiting for _, waiting in self.samples], 0.95), "others_cores": self.others}


def write_prompts(path, seed, limits):
    """The model's families in the shares of its dataset, in an order of this seed."""
    sys.path.insert(0, str(DEMO))
    import corpus
    from dataset_prompts import dataset_prompts

    prompts = dataset_prompts(seed, 0.5)
    random.Random(seed).shuffle(prompts)
    with open(path, "w") as file:
        for prompt in prompts:
            text = corpus.chat_prompt([(prompt["prompt"], None)]).removeprefix(corpus.BOS)
            limit = OWN_LIMITS[prompt["family"]] if limits == "own" else MAX_TOKENS
            file.write(json.dumps({"prompt": text, "max_tokens": limit}) + "\n")


def bench(options, service, folder, load):
    rows = folder / "rows.jsonl"
    command = [options.binary, "bench", "--server", service.grpc, "--prompts", str(folder / "prompts.jsonl"),
               "--eos", "honor", "--temperature", "0.8", "--runs", "1", "--rows", str(rows), *load]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stderr[-2000:]}")
    lines = [json.loads(line) for line in rows.read_text().splitlines()]
    return [line for line in lines if "chunks" in line]


def capacity(options, service, folder, seed):
    """Requests per second while nine in ten of so many that came at once are answered, as the simulator's study has it."""
    rows = bench(options, service, folder, ["--rate", "inf", "--requests", str(ROUNDS_OF_SEATS * options.seats),
                                            "--seed", str(seed)])
    return rate_of_most(rows)


def measure(options, services, folder):
    """{load: {policy: {round: figures}}}, the capacities, and the limits of latency."""
    runs = {load: {service.name: {} for service in services} for load in options.loads}
    pids = [pid for service in services for pid in service.pids]
    capacities, slo = [], None
    write_prompts(folder / "prompts.jsonl", options.seed - 1, options.limits)
    for service in services:  # what is learnt while serving is learnt, and caches are warm
        capacity(options, service, folder, options.seed - 1)
    for number in range(options.rounds):
        seed = options.seed + 1000 * number
        write_prompts(folder / "prompts.jsonl", seed, options.limits)
        capacities.append(capacity(options, services[0], folder, seed))
        say(f"round {number + 1} of {options.rounds}: capacity {capacities[-1]:.1f} requests/s")
        slo = slo or limits_of(options, services[0], folder, capacities[0])
        for load in options.loads:
            at = number % len(services)
            for service in services[at:] + services[:at]:
                rate = f"{max(0.1, load * capacities[-1]):.2f}"
                with Watch(service, pids) as watch:
                    rows = bench(options, service, folder, ["--rate", rate, "--duration", f"{options.seconds}s",
                                                            "--seed", str(seed)])
                figures = run_figures(rows, options.seconds / 4, options.seconds, slo) | watch.figures()
                runs[load][service.name][number] = figures
                say(f"  {load:.0%} {service.name}: mean end to end {figures['e2e_mean']:.0f} ms, "
                    f"KV use P95 {figures['kv_p95']:.2f}, {figures['preemptions']:.0f} preemptions")
    return runs, capacities, slo


def limits_of(options, service, folder, most):
    """What a request may take: ten times the median TTFT and four times the median TPOT at a quarter of the capacity."""
    rows = bench(options, service, folder, ["--rate", f"{max(0.1, most / 4):.2f}", "--duration", f"{CALM_S}s",
                                            "--seed", str(options.seed)])
    calm = run_figures(rows, 0, CALM_S, {})
    return {"ttft": 10 * calm["ttft_p50"], "tpot": 4 * calm["tpot_p50"]}


def report(options, runs, capacities, slo):
    names = options.policies
    others = [f["others_cores"] for load in runs.values() for rounds in load.values() for f in rounds.values()]
    print(f"{options.seats} places, {options.pool} tokens of KV, steps {options.step_ms} ms longer, {options.rounds} rounds of "
          f"{options.seconds:g} s, seed {options.seed}, max_tokens of {'each kind' if options.limits == 'own' else 'all'}")
    print(f"{os.cpu_count()} cores, of which others used {statistics.median(others):.1f} while requests were served (from "
          f"{min(others):.1f} to {max(others):.1f})")
    print(f"capacity under {names[0]}: {statistics.median(capacities):.1f} requests/s, median of {len(capacities)} rounds "
          f"({min(capacities):.1f} to {max(capacities):.1f}); limits: TTFT {slo['ttft']:.0f} ms, TPOT {slo['tpot']:.1f} ms")
    for load in options.loads:
        print(f"\n### {load:.0%} of capacity\n\n{table(runs[load], names)}")
        full = median(runs[load], names[0], "kv_p95")
        if full < 0.9:
            print(f"\nThe pool was not full: P95 of KV use {full:.2f} under {names[0]}; a smaller --pool would fill it.")
    bases = [name for name in ("fcfs", "past-future") if name in names]
    judged = 0.85 if 0.85 in options.loads else options.loads[-1]
    print(f"\nP99 end to end at {judged:.0%} not above, and mean below, {' and '.join(bases) or names[0]}:")
    for name in names:
        if name in bases or not bases:
            continue
        could, sure = better(runs[judged], name, bases)
        ratios = "; ".join(f"mean {cell(*compare(runs[judged], name, base, 'e2e_mean'))}, "
                           f"P99 {cell(*compare(runs[judged], name, base, 'e2e_p99'))} of {base}" for base in bases)
        print(f"  {name}: {'yes' if sure else 'perhaps, within chance' if could else 'no'} ({ratios})")


def comma(kind):
    return lambda text: [kind(part) for part in text.split(",") if part]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=ROOT / "build/cpu/bin", type=pathlib.Path, help="folder of the programs")
    parser.add_argument("--policies", type=comma(str), default=["fcfs", "past-future", "remaining", "boost"],
                        help="the first is what the others are compared with")
    parser.add_argument("--loads", type=comma(float), default=[0.7, 0.85, 0.95], help="parts of the capacity")
    parser.add_argument("--rounds", type=int, default=5, help="of all loads and policies")
    parser.add_argument("--seconds", type=float, default=6, help="of each run; its first quarter does not count")
    parser.add_argument("--seats", type=int, default=32, help="--max-num-seqs")
    parser.add_argument("--pool", type=int, default=1536, help="--kv-cache-tokens")
    parser.add_argument("--step-ms", type=int, default=4, help="that each step takes longer, as on a slower device")
    parser.add_argument("--threads", type=int, default=1, help="of each worker")
    parser.add_argument("--limits", choices=("one", "own"), default="one", help="max_tokens of all, or of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=pathlib.Path, help="JSON of all figures")
    options = parser.parse_args()
    options.binary = str(options.bin / "baton")
    for what, given in (("--policies", options.policies), ("--loads", options.loads)):
        if len(set(given)) < len(given):
            parser.error(f"{what} names one twice: {','.join(map(str, given))}; expected each once")
    if not options.policies or not options.loads or min(options.loads) <= 0 or min(options.rounds, options.seconds) < 1 \
            or options.step_ms < 0:
        parser.error("expected a policy, loads above 0, rounds and seconds from 1, and --step-ms from 0")
    if options.pool < MAX_TOKENS + 128:
        parser.error(f"--pool is {options.pool}; expected at least {MAX_TOKENS + 128}, the longest answer and its prompt")
    if not os.access(options.binary, os.X_OK):
        parser.error(f"no program {options.binary}; build it, or name its folder by --bin")
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="baton-scheduling-")))
        services = [stack.enter_context(Service(name, options, folder)) for name in options.policies]
        runs, capacities, slo = measure(options, services, folder)
    if options.out:
        settings = {key: str(value) if isinstance(value, pathlib.Path) else value for key, value in vars(options).items()}
        options.out.write_text(json.dumps({"options": settings, "capacities": capacities, "slo_ms": slo,
                                           "runs": {str(load): by for load, by in runs.items()}}, indent=1) + "\n")
    report(options, runs, capacities, slo)


if __name__ == "__main__":
    main()
