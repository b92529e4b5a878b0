"""The runs and the table behind scripts/compare."""

import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile

from compare_servers import ROOT, CompareError, systems_of

SHAPE = {"arch": "llama", "layers": 12, "hidden": 768, "heads": 12, "kv-heads": 4, "head-dim": 64,
         "ffn": 2048, "vocab": 32000, "dtype": "bfloat16", "seed": 1}
# Column, figure of the measured window in result.json and its statistic, format.
COLUMNS = (("requests/s", ("request_throughput",), "{:.2f}"),
           ("output tok/s", ("output_throughput",), "{:.1f}"),
           ("TTFT mean", ("ttft_ms", "mean"), "{:.1f}"), ("p50", ("ttft_ms", "p50"), "{:.1f}"),
           ("p99", ("ttft_ms", "p99"), "{:.1f}"),
           ("TPOT p50", ("tpot_ms", "p50"), "{:.2f}"), ("p99", ("tpot_ms", "p99"), "{:.2f}"),
           ("gap p99", ("itl_ms", "p99"), "{:.1f}"))


def say(text):
    print(text, file=sys.stderr, flush=True)


def loads_of(options):
    """(name, flags) of every load."""
    loads = [(f"{n} under way", ["--concurrency", n]) for n in options.concurrency]
    return loads + [(f"{r} requests/s", ["--rate", r]) for r in options.rate]


def measure(options, system, address, load, seed, folder, requests=None):
    """One `baton bench`; its result.json as an object, or a CompareError."""
    out = pathlib.Path(folder) / "result.json"
    out.unlink(missing_ok=True)
    command = [options.baton, "bench", *system.load(address), *load, "--requests",
               str(requests or options.requests), "--warmup", options.warmup, "--input-tokens",
               options.input_tokens, "--output-tokens", options.output_tokens, "--eos", "continue",
               "--runs", "1", "--seed", str(seed), "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=options.limit_s)
    if not out.exists():
        raise CompareError(f"{' '.join(command)}\nended with {done.returncode}:\n"
                           f"{done.stderr[-2000:]}")
    result = json.loads(out.read_text())
    if problem := problem_of(result):
        raise CompareError(f"{system.name}: {problem}; the command was\n{' '.join(command)}")
    return result


def problem_of(result):
    """Why a result cannot stand in the table, or an empty text."""
    if result.get("void"):
        return f"the run is void, {result['void']}"
    if result.get("partial"):
        return f"the run is partial, {result.get('partial_reason')}"
    if result.get("failed"):
        errors = sorted({error for error in result.get("errors", []) if error})
        return f"{result['failed']} requests failed: {'; '.join(errors)[:500]}"
    if result.get("client_limited"):
        return "the load generator was late, so the server got less load than asked; try a lower --rate"
    return ""


def figure(result, names):
    """A figure of the measured window of the one run, or None where it has no samples."""
    found = result["runs"][0]["figures"]
    for name in names:
        found = found[name] if found is not None else None
    return found


def run_rounds(options, systems, loads, folder):
    """{(load, system): [result of every round]}. Every round starts with another system, so that
    no one always follows the same neighbour."""
    results = {}
    for number in range(options.rounds):
        for place in range(len(systems)):
            system = systems[(number + place) % len(systems)]
            say(f"round {number + 1} of {options.rounds}: {system.name}")
            server = system.start(pathlib.Path(folder) / f"{number}-{place}.log")
            try:
                # What a server does once, at its first requests, is not what is compared.
                measure(options, system, server.address, ["--concurrency", "1"], number + 1, folder,
                        requests=2)
                for at, (name, flags) in enumerate(loads):
                    seed = 1000 * (number + 1) + at
                    result = measure(options, system, server.address, flags, seed, folder)
                    results.setdefault((name, system.name), []).append(result)
                    say(f"  {name}: {figure(result, ('output_throughput',)):.1f} output tok/s")
            except CompareError as error:
                raise CompareError(f"{error}\n{server.last_words()}") from error
            finally:
                server.stop()
    return results


def median_of(results, names):
    values = [value for result in results if (value := figure(result, names)) is not None]
    return statistics.median(values) if values else None


def spread_of(results, names):
    """(max - min) / median of the rounds in percent."""
    values = [figure(result, names) for result in results]
    middle = statistics.median(values)
    return 100 * (max(values) - min(values)) / middle if middle else 0


def table(systems, loads, results):
    head = ["load", "server", *[column for column, _, _ in COLUMNS], "rounds differ by"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for load, _ in loads:
        for system in systems:
            rounds = results[(load, system.name)]
            cells = [load, f"{system.name}: {system.note}"]
            for _, names, form in COLUMNS:
                value = median_of(rounds, names)
                cells.append("-" if value is None else form.format(value))
            spread = spread_of(rounds, ("output_throughput",))
            cells.append(f"{spread:.0f} %" if len(rounds) > 1 else "one round")
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def machine_limits(options):
    """The first line of bench_kernels: ISA, threads, peak GFLOP/s, read GB/s."""
    program = pathlib.Path(options.baton).parent / "bench_kernels"
    if not program.exists():
        return f"not measured: there is no {program.name} beside {options.baton}"
    # The line stands first and is all that is wanted; unbuffered, it need not wait for the rest.
    command = ["stdbuf", "-oL", str(program), "--threads", str(options.threads), "--rounds", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        line = process.stdout.readline().split(";", 1)[0].strip()
        process.kill()
    if "GB/s" not in line:
        raise CompareError(f"{program} said '{line}' where its limits were expected")
    return line


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown processor"


def report(options, systems, loads, results, limits):
    config = json.loads((pathlib.Path(options.model) / "config.json").read_text())
    shape = (f"{config['num_hidden_layers']} layers, hidden {config['hidden_size']}, ffn "
             f"{config['intermediate_size']}, {config['num_attention_heads']} query and "
             f"{config.get('num_key_value_heads', config['num_attention_heads'])} KV heads, "
             f"vocabulary {config['vocab_size']}")
    return "\n".join([
        f"Model: {config['architectures'][0]}, {shape}, {config.get('torch_dtype', 'float32')}. "
        f"Prompts of {options.input_tokens} tokens, outputs of {options.output_tokens} with EOS "
        f"ignored, {options.requests} requests a run after 2 that are not counted, ramp and drain left "
        "out where that leaves enough of them; "
        f"{options.rounds} interleaved round{'s' * (options.rounds > 1)}, medians; "
        "milliseconds. The load generator shares the machine with the servers.",
        "",
        f"Machine: {processor()}, {os.cpu_count()} cores. Limits measured in the same run: "
        f"{limits}.",
        "", table(systems, loads, results), ""])


def parse(arguments):
    parser = argparse.ArgumentParser(prog="scripts/compare", description=(
        "Baton split and unified, llama.cpp's server and transformers on one model shape."))
    add = parser.add_argument
    add("--model", help="model directory for Baton and transformers [a random one of 100 M]")
    add("--llama-server", metavar="PATH", help="llama.cpp's server; with --gguf")
    add("--gguf", metavar="FILE", help="the same model for llama.cpp")
    add("--transformers", metavar="PYTHON", help="a Python that has torch and transformers")
    add("--threads", type=int, default=os.cpu_count(), help="of every server in all [all cores]")
    add("--concurrency", default="", metavar="N,..", help="closed loops [1,8 without --rate]")
    add("--rate", default="", metavar="R,..", help="open loops, requests per second")
    add("--requests", type=int, default=40, help="of each run [40]")
    add("--warmup", default="0s", help="left out of each run's window [0s]")
    add("--input-tokens", default="256", help="[256]")
    add("--output-tokens", default="64", help="[64]")
    add("--rounds", type=int, default=3, help="[3]")
    add("--places", type=int, default=32, help="sequences that a server runs at once [32]")
    add("--context", type=int, default=2048, help="tokens of one sequence [2048]")
    add("--kv-cache-memory", default="1GiB", help="of each of Baton's workers [1GiB]")
    add("--limit-s", type=int, default=1800, help="seconds that one run may take [1800]")
    add("--baton-bin", default=str(ROOT / "build/cpu/bin"), help="folder of Baton's binaries")
    add("--out", metavar="FILE", help="where the table goes [standard output]")
    options = parser.parse_args(arguments)
    split = lambda text: [part for part in text.split(",") if part]
    options.concurrency, options.rate = split(options.concurrency), split(options.rate)
    if not options.concurrency and not options.rate:
        options.concurrency = ["1", "8"]
    options.baton = str(pathlib.Path(options.baton_bin) / "baton")
    if bool(options.llama_server) != bool(options.gguf):
        parser.error("--llama-server and --gguf go together: the server and its model")
    for name in ("threads", "requests", "rounds", "places", "context"):
        if getattr(options, name) < 1:
            parser.error(f"--{name}: expected at least 1, found {getattr(options, name)}")
    paths = (options.baton, options.llama_server, options.gguf, options.transformers, options.model)
    for path in filter(None, paths):
        if not pathlib.Path(path).exists():
            parser.error(f"{path} is not there")
    return options


def make_model(options):
    folder = ROOT / "build/compare/random100m"
    if not (folder / "config.json").exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        flags = [part for key, value in SHAPE.items() for part in (f"--{key}", str(value))]
        subprocess.run([options.baton, "model", "make-random", str(folder), *flags], check=True,
                       stdout=subprocess.DEVNULL)
    return str(folder)


def main(arguments):
    options = parse(arguments)
    options.model = options.model or make_model(options)
    config = json.loads((pathlib.Path(options.model) / "config.json").read_text())
    options.vocab_size = config["vocab_size"]
    systems, loads = systems_of(options), loads_of(options)
    before = os.getloadavg()[0]
    if before > 0.25 * os.cpu_count():
        say(f"load average {before:.1f}: other processes take part of the machine, and servers suffer "
            "unequally from that; compare on a quiet one")
    limits = f"{machine_limits(options)}; load average before it {before:.1f}"
    say(limits)
    with tempfile.TemporaryDirectory(prefix="baton-compare-") as folder:
        results = run_rounds(options, systems, loads, folder)
    text = report(options, systems, loads, results, limits)
    if options.out:
        pathlib.Path(options.out).write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("scripts/compare: told to end"))
    try:
        main(sys.argv[1:])
    except (CompareError, subprocess.SubprocessError, OSError) as error:
        sys.exit(f"scripts/compare: {error}")
