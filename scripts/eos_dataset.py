"""Makes the EOS dataset of the demo model: `scripts/eos dataset --out DIR`. Run it again after a stop: it goes on.

DIR/split.jsonl has a line per prompt: prompt_index, family, size, split, prompt. The folders of ARMS are what
`baton eos collect` writes. DIR/ceiling.jsonl has a line per prefix of a test answer that was continued anew:
{"request_id", "family", "size", "prompt_index", "at_step": tokens of the prefix, "remaining": what the answer itself
had after it, "samples": the same of each continuation, "censored": which of them ran to their limit}; all counts are of
tokens after the prefix, EOS included. DIR/summary.md tells how it came out, as docs/eos-dataset.md does.
"""

import argparse
import collections
import contextlib
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
DEMO = ROOT / "models/demo"
LIMIT = 1024  # tokens of an answer; an endless one runs to it
ARMS = {
    "greedy": ("prompts", {"temperatures": "0", "seeds": 1, "max-tokens": LIMIT}),
    "sampled": ("prompts", {"temperatures": "0.5,0.8,1.2", "seeds": 3, "max-tokens": LIMIT}),
    "top_p": ("prompts", {"temperatures": "0.8", "seeds": 3, "top-p": 0.7, "max-tokens": LIMIT}),
    "censored": ("prompts_censored", {"temperatures": "0.8", "seeds": 3}),
}
CEILING_TEMPERATURE = 0.8
CEILING_SEEDS = 32
CEILING_FIRST_SEED = 1001  # other seeds than those of the answers
CEILING_PREFIXES = 2  # of each answer
START_S = 120


class DatasetError(Exception):
    """What went wrong, for a person."""


def say(text):
    print(text, file=sys.stderr, flush=True)


def read_jsonl(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


def jsonl(objects):
    return "".join(json.dumps(each) + "\n" for each in objects)


def write_jsonl(path, objects):
    path.write_text(jsonl(objects))


def write_prompts(out, seed, scale):
    sys.path.insert(0, str(DEMO))
    from dataset_prompts import dataset_prompts

    prompts = dataset_prompts(seed, scale)
    split = [{"prompt_index": i, **{key: p[key] for key in ("family", "size", "split", "prompt")}}
             for i, p in enumerate(prompts)]
    path = out / "split.jsonl"
    # A part of it is what a run left that was stopped while it wrote.
    if path.exists() and not jsonl(split).startswith(path.read_text()):
        raise DatasetError(f"{path} is of another --seed or --scale than {seed} and {scale}; give those that "
                           "it was made with, to go on, or another folder for --out")
    asked = [{"messages": [{"role": "user", "content": p["prompt"]}], "family": p["family"]} for p in prompts]
    write_jsonl(path, split)
    write_jsonl(out / "prompts.jsonl", asked)
    write_jsonl(out / "prompts_censored.jsonl",
                [{**line, "max_tokens": p["cut"]} for line, p in zip(asked, prompts)])
    return split


@contextlib.contextmanager
def service(binaries, model, out, flags):
    """`baton serve`, ended when the block is left, however that happens. Gives its gRPC address."""
    ready, log = out / "serve.ready", out / "serve.log"
    command = [binaries / "baton", "serve", model, "--port", "0", "--admin-port", "0", "--eos-log", "off",
               "--load-cache", "off", *flags]
    with open(ready, "wb") as stdout, open(log, "wb") as stderr:
        process = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", *map(str, command)], stdout=stdout,
                                   stderr=stderr, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        deadline = time.monotonic() + START_S
        while not ready.read_text().endswith("\n"):
            if process.poll() is not None or time.monotonic() > deadline:
                raise DatasetError(f"the service did not start within {START_S} s; its log ends:\n"
                                   + "\n".join(log.read_text().splitlines()[-5:]))
            time.sleep(0.1)
        yield json.loads(ready.read_text())["grpc"]
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def collect(binaries, server, prompts, out, options, extra):
    """Returns how many seconds it took."""
    started = time.monotonic()
    command = [binaries / "baton", "eos", "collect", "--server", server, "--prompts", prompts, "--out", out, *extra]
    for name, value in options.items():
        command += [f"--{name}", value]
    if subprocess.run(list(map(str, command)), check=False).returncode != 0:
        raise DatasetError(f"collecting {out.name} failed: see above; what was collected is kept, run this again")
    return time.monotonic() - started


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def read_varints(data):
    values, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            values.append(value)
            value = shift = 0
    return values


class ServerTokenizer:
    """Token ids of texts, by InferenceService.Tokenize; its two messages are so small that they are coded here."""

    def __init__(self, server):
        try:
            import grpc
        except ImportError as error:
            raise DatasetError(f"{error}; the ceiling needs it, type: apt-get install python3-grpcio") from None
        # The server is reached directly, whatever proxy the environment names.
        self._channel = grpc.insecure_channel(server, [("grpc.enable_http_proxy", 0)])
        self._call = self._channel.unary_unary("/baton.v1.InferenceService/Tokenize")

    def encode(self, text):
        data = text.encode()
        answer = self._call(b"\x12" + varint(len(data)) + data + b"\x18\x00", timeout=30)
        if not answer:
            return []
        tag, *_ = answer
        if tag != 0x0A:
            raise DatasetError(f"Tokenize answered with the field tag {tag}; expected 10, token_ids of baton.v1")
        return read_varints(answer[1:])[1:]  # behind the length

    def close(self):
        self._channel.close()


def choose_prefixes(out, split, seed):
    """(request, tokens of the prefix) of test answers that ended by themselves."""
    chosen = []
    for request in sorted(read_jsonl(out / "sampled/requests.jsonl"), key=lambda r: r["request_id"]):
        prompt = split[request["prompt_index"]]
        if (prompt["split"] != "test" or prompt["family"] == "endless" or request["finish_reason"] != "stop_eos"
                or request["temperature"] != CEILING_TEMPERATURE):
            continue
        places = range(1, request["output_length"])
        rng = random.Random(f"ceiling/{seed}/{request['request_id']}")
        chosen += [(request, t) for t in sorted(rng.sample(places, min(CEILING_PREFIXES, len(places))))]
    return chosen


def write_prefixes(out, server, split, chosen):
    from corpus import chat_prompt

    tokenizer, prompts = ServerTokenizer(server), {}
    lines = []
    for request, step in chosen:
        index = request["prompt_index"]
        if index not in prompts:
            prompts[index] = tokenizer.encode(chat_prompt([(split[index]["prompt"], None)]))
        if len(prompts[index]) != request["prompt_length"]:
            raise DatasetError(f"prompt {index} has {len(prompts[index])} tokens; the service counted "
                               f"{request['prompt_length']}: its chat template is not that of models/demo/corpus.py")
        lines.append({"token_ids": prompts[index] + request["token_ids"][:step], "family": request["family"],
                      "max_tokens": LIMIT - step})
    tokenizer.close()
    write_jsonl(out / "prefixes.jsonl", lines)


def write_ceiling(out, split, chosen):
    samples = collections.defaultdict(list)
    for answer in sorted(read_jsonl(out / "ceiling/requests.jsonl"), key=lambda r: r["seed"]):
        samples[answer["prompt_index"]].append((answer["output_length"], answer["finish_reason"] != "stop_eos"))
    write_jsonl(out / "ceiling.jsonl", [
        {"request_id": request["request_id"], "family": request["family"],
         "size": split[request["prompt_index"]]["size"], "prompt_index": request["prompt_index"], "at_step": step,
         "remaining": request["output_length"] - step, "samples": [n for n, _ in samples[i]],
         "censored": [cut for _, cut in samples[i]]}
        for i, (request, step) in enumerate(chosen)])


def length_row(name, requests):
    lengths = sorted(r["output_length"] for r in requests)
    ended = sum(r["finish_reason"] == "stop_eos" for r in requests)
    def at(share):
        return lengths[min(len(lengths) - 1, int(share * len(lengths)))]
    return (f"| {name} | {len(lengths)} | {sum(lengths)} | {100 * ended / len(lengths):.1f} % | "
            f"{statistics.mean(lengths):.1f} | {at(0.5)} | {at(0.9)} | {lengths[-1]} |")


def prompts_table(split):
    lines = ["| family | train | validation | test | held out |\n|---|---|---|---|---|"]
    splits = collections.Counter((p["family"], p["split"]) for p in split)
    for family in dict.fromkeys(p["family"] for p in split):
        numbers = [str(splits[family, part] or "") for part in ("train", "validation", "test", "held_out")]
        lines.append(f"| {family} | {' | '.join(numbers)} |")
    return lines


def means_table(groups, arms):
    """Mean lengths, a line per family and size, a column per arm."""
    lines = ["| family, asked for | " + " | ".join(arms) + " |\n|" + "---|" * (len(arms) + 1)]
    for kind in dict.fromkeys(kind for _, kind in groups):
        means = [f"{statistics.mean(r['output_length'] for r in groups[arm, kind]):.1f}" for arm in arms]
        lines.append(f"| {kind} | {' | '.join(means)} |")
    return lines


def summary(out, split, seconds):
    """Markdown: what each arm holds, and lengths by family and by what was asked."""
    head = "| requests | rows | ended by EOS | mean | p50 | p90 | longest |\n|---|---|---|---|---|---|---|---|"
    groups, arms = collections.defaultdict(list), collections.defaultdict(list)
    for arm in ARMS:
        requests = read_jsonl(out / arm / "requests.jsonl")
        for request in sorted(requests, key=lambda r: (r["temperature"], r["prompt_index"])):
            size = split[request["prompt_index"]]["size"]
            name = f"{arm}, T {request['temperature']:g}"
            arms[name].append(request)
            groups[name, request["family"] + (f", {size}" if size else "")].append(request)
    text = ["## Prompts\n", *prompts_table(split), "\n## Arms\n", "| arm " + head]
    text += [length_row(name, requests) for name, requests in arms.items()]
    middle = f"sampled, T {CEILING_TEMPERATURE:g}"
    text += [f"\n## Lengths by family: {middle}\n", "| family, asked for " + head]
    text += [length_row(kind, requests) for (name, kind), requests in groups.items() if name == middle]
    text += ["\n## Mean length by family and arm\n", *means_table(groups, list(arms))]
    prefixes = read_jsonl(out / "ceiling.jsonl")
    stories = sum(p["family"] == "story" for p in prefixes)
    text.append(f"\n{len(prefixes)} prefixes of test answers, {stories} of them of stories, were continued "
                f"{CEILING_SEEDS} times each.\n")
    text.append("Seconds: " + ", ".join(f"{name} {value:.0f}" for name, value in seconds.items()) + ".")
    return "\n".join(text) + "\n"


def options_of(arguments):
    ap = argparse.ArgumentParser(prog="scripts/eos dataset", description="Makes the EOS dataset of the demo model.")
    ap.add_argument("--out", type=pathlib.Path, required=True)
    ap.add_argument("--scale", type=float, default=1.0, help="share of the prompts that are asked")
    ap.add_argument("--seed", type=int, default=1, help="which prompts and prefixes are drawn")
    ap.add_argument("--model", type=pathlib.Path, default=DEMO, help="a model of the demo's families and template")
    ap.add_argument("--concurrency", type=int, default=64)
    ap.add_argument("--hidden", action="store_true", help="keep the products of the workers' probe file, too")
    ap.add_argument("--serve-flag", action="append", default=[], metavar="FLAG",
                    help="for baton serve, as --serve-flag=--threads=1; may be given several times")
    options = ap.parse_args(arguments)
    if not 0 < options.scale <= 10:
        ap.error(f"--scale is {options.scale}; expected more than 0 and at most 10")
    return options


def make(options):
    binaries = pathlib.Path(os.environ.get("BATON_BIN", ROOT / "build/cpu/bin"))
    if not (binaries / "baton").exists():
        raise DatasetError(f"{binaries}/baton is not there; type scripts/demo, which builds it, or set BATON_BIN")
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    split, seconds = write_prompts(out, options.seed, options.scale), {}
    extra = ["--concurrency", options.concurrency, *(["--hidden"] if options.hidden else [])]
    with service(binaries, options.model, out, options.serve_flag) as server:
        for arm, (prompts, grid) in ARMS.items():
            say(f"{arm}:")
            seconds[arm] = collect(binaries, server, out / f"{prompts}.jsonl", out / arm, grid, extra)
        say("ceiling:")
        chosen = choose_prefixes(out, split, options.seed)
        write_prefixes(out, server, split, chosen)
        grid = {"temperatures": CEILING_TEMPERATURE, "seeds": CEILING_SEEDS, "first-seed": CEILING_FIRST_SEED}
        seconds["ceiling"] = collect(binaries, server, out / "prefixes.jsonl", out / "ceiling", grid, extra[:2])
    write_ceiling(out, split, chosen)
    # Of a run that only went on, the seconds are those of the last part.
    (out / "summary.md").write_text(summary(out, split, seconds))
    say(f"{out}: done; summary.md tells how it came out")


def main(arguments):
    try:
        make(options_of(arguments))
    except (DatasetError, OSError) as error:
        say(f"eos dataset: {error}")
        return 1
    except KeyboardInterrupt:
        say("eos dataset: interrupted; run it again to go on")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
