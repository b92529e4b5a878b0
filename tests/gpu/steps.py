"""The part that measures single steps: ceilings, decode, prefill, products and attention apart, and
transformers with torch on the same shape, in turns with Baton.
"""

import json
import os
import pathlib
import re
import statistics
import subprocess

import report
from plan import Failure, NotMeasured

HERE = pathlib.Path(__file__).resolve().parent
HEAD = re.compile(r"^(\S+), (\d+) threads: peak ([\d.]+) GFLOP/s, (copy|read) ([\d.]+) GB/s", re.M)
LINE = re.compile(r"^(.+?) +([\d.]+) ms +([\d.]+) (GFLOP/s|GB/s) +([\d.]+) % of (.+)$", re.M)
COPY, PRODUCT = "copy bandwidth, read and written", "bf16 matrix product, peak"


def step_names(sizes):
    prompts, tokens = sizes.prefill
    return {**{("decode", batch): f"decode, batch {batch}, context {sizes.context}" for batch in sizes.batches},
            ("prefill", prompts): f"prefill of {prompts} x {tokens}"}


def fp8_names(sizes):
    """Lines of bench_kernels that depend on the type of the KV cache."""
    prompts, tokens = sizes.prefill
    return [*step_names(sizes).values(), f"attention, prefill of {prompts} x {tokens}",
            f"attention, {sizes.batches[-1]} x context {sizes.context}"]


def rows(sizes):
    """Names of all but the ceilings are those that bench_kernels prints, with another KV cache behind them."""
    return bf16_rows(sizes) + [report.Row(f"{name}, KV cache of fp8") for name in fp8_names(sizes)]


def bf16_rows(sizes):
    prompts, tokens = sizes.prefill
    names = step_names(sizes)
    made = [report.Row(COPY, has_peer=True), report.Row(PRODUCT, has_peer=True)]
    made += [report.Row(names["decode", batch], aim=80, limit="bandwidth", has_peer=True) for batch in sizes.batches]
    made += [report.Row(names["prefill", prompts], aim=60, limit="peak", has_peer=True)]
    made += [report.Row(f"matmuls of all layers, M = {count}") for count in sizes.product_rows]
    made += [report.Row(f"attention, prefill of {prompts} x {tokens}"),
             report.Row(f"attention, {sizes.batches[-1]} x context {sizes.context}")]
    return made


class BenchOutput:
    """What bench_kernels printed."""

    def __init__(self, text):
        head = HEAD.search(text)
        if head is None:
            raise Failure(f"bench_kernels said '{first(text)}' where its limits were expected")
        self.numerics = head[1]
        self.flops_per_s, self.limit_name = float(head[3]) * 1e9, head[4]
        self.bytes_per_s = float(head[5]) * 1e9
        self.lines = {m[1]: {"ms": float(m[2]), "rate": float(m[3]), "unit": m[4], "percent": float(m[5]),
                             "of": m[6]} for m in LINE.finditer(text)}


def first(text):
    lines = text.strip().splitlines()
    return lines[0] if lines else "nothing"


def bench_kernels(context, only, *further):
    program = context.build.program("bench_kernels")
    if program is None:
        raise NotMeasured(f"bench_kernels is not in {context.build.origin}: build it")
    command = [str(program), "--device", context.device, "--shape", context.sizes.bench_shape, "--rounds",
               str(context.sizes.bench_rounds), "--only", only, *further]
    result = subprocess.run(command, capture_output=True, text=True, timeout=context.left(), check=False,
                            env={**os.environ, **context.environment})
    print(f"--- {' '.join(command)}\n{result.stdout}{result.stderr}", flush=True)
    if result.returncode != 0:
        raise Failure(f"bench_kernels ended with {result.returncode}: {first(result.stderr or result.stdout)}")
    return BenchOutput(result.stdout)


class Peer:
    """torch and transformers in a process of their own, asked line by line; idle in between."""

    def __init__(self, context):
        shape = json.dumps(vars(context.sizes.shape))
        command = [context.python, "-B", str(HERE / "torch_steps.py"), "--device", context.device, "--shape", shape]
        self._context = context
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.about = self._answer()

    def ask(self, **question):
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self):
        # The part's own limit ends a peer that never answers.
        line = self._process.stdout.readline()
        if not line:
            self._process.wait(30)
            raise NotMeasured(f"{self._context.python} with torch ended with {self._process.returncode}; see the log")
        answer = json.loads(line)
        print(f"--- torch: {line.strip()}", flush=True)
        if "error" in answer:
            raise NotMeasured(answer["error"])
        return answer

    def close(self):
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def limits_text(output):
    return f"{output.bytes_per_s / 1e9:.0f} GB/s", f"{output.flops_per_s / 1e12:.1f} TFLOP/s"


def record_baton(context, outputs, recorder):
    """Medians of what the rounds gave so far."""
    sizes = context.sizes
    bytes_per_s = statistics.median(output.bytes_per_s for output in outputs)
    flops_per_s = statistics.median(output.flops_per_s for output in outputs)
    recorder.row(COPY, baton=f"{bytes_per_s / 1e9:.0f} GB/s", data={"bytes_per_s": bytes_per_s,
                                                                    "is": outputs[0].limit_name})
    recorder.row(PRODUCT, baton=f"{flops_per_s / 1e12:.2f} TFLOP/s", data={"flops_per_s": flops_per_s})
    for row in bf16_rows(sizes)[2:]:
        found = [output.lines[row.what] for output in outputs if row.what in output.lines]
        if not found:
            raise Failure(f"bench_kernels printed no line '{row.what}'")
        ms = statistics.median(line["ms"] for line in found)
        text = f"{ms:.3f} ms, {statistics.median(line['rate'] for line in found):.0f} {found[0]['unit']}"
        recorder.row(row.what, baton=text + per_second(row.what, sizes, ms),
                     percent=statistics.median(line["percent"] for line in found),
                     data={"rounds": found, "of": found[0]["of"]})
    return bytes_per_s, flops_per_s


def record_fp8(context, recorder):
    """Steps and attention over a KV cache of fp8, once; that they are right is checked by part `kernels`."""
    output = bench_kernels(context, "steps,operations", "--kv-dtype", "fp8")
    for name in fp8_names(context.sizes):
        line = output.lines.get(name)
        if line is None:
            raise Failure(f"bench_kernels --kv-dtype fp8 printed no line '{name}'")
        text = f"{line['ms']:.3f} ms, {line['rate']:.0f} {line['unit']}"
        recorder.row(f"{name}, KV cache of fp8", baton=text + per_second(name, context.sizes, line["ms"]),
                     percent=line["percent"], data={"of": line["of"]})


def per_second(what, sizes, ms):
    """Tokens per second of a whole step, as text."""
    for (kind, count), name in step_names(sizes).items():
        if name == what:
            tokens = count if kind == "decode" else count * sizes.prefill[1]
            return f", {tokens / ms * 1e3:.0f} tokens/s"
    return ""


def questions(sizes):
    for (kind, count), name in step_names(sizes).items():
        tokens = sizes.context if kind == "decode" else sizes.prefill[1]
        yield name, {"kind": kind, "count": count, "tokens": tokens, "steps": sizes.peer_steps}


def record_peer(context, peer, found, limits, recorder):
    """Asks torch once more for each step; medians of the rounds."""
    sizes, (bytes_per_s, flops_per_s) = context.sizes, limits
    for name, question in questions(sizes):
        found.setdefault(name, []).append(peer.ask(**question)["seconds"])
        seconds = statistics.median(found[name])
        if question["kind"] == "decode":
            amount = sizes.shape.weight_bytes() + (
                sizes.shape.kv_bytes_per_token() * question["count"] * question["tokens"])
            share = amount / seconds / bytes_per_s
        else:
            share = sizes.shape.prefill_flops(question["count"], question["tokens"]) / seconds / flops_per_s
        recorder.row(name, peer=f"{seconds * 1e3:.3f} ms, {100 * share:.1f} %",
                     data={"peer_seconds": found[name], "peer_percent": 100 * share})


def steps(context, recorder):
    """Ceilings, then steps, in turns with transformers on torch (eager, sdpa, same shape, random weights)."""
    outputs = [bench_kernels(context, "matmuls,steps,operations")]
    recorder.detail("numerics", outputs[0].numerics)
    limits = record_baton(context, outputs, recorder)
    record_fp8(context, recorder)
    recorder.why("one round of Baton's")
    try:
        peer = Peer(context)
    except (NotMeasured, OSError) as error:
        recorder.why(f"Baton's figures; torch: {error}")
        return
    try:
        asked = peer.ask(kind="limits")
        recorder.row(COPY, peer=f"{asked['bytes_per_s'] / 1e9:.0f} GB/s", data={"peer": asked["bytes_per_s"]})
        recorder.row(PRODUCT, peer=f"{asked['flops_per_s'] / 1e12:.2f} TFLOP/s", data={"peer": asked["flops_per_s"]})
        found = {}
        record_peer(context, peer, found, limits, recorder)
        for _ in range(context.sizes.rounds - 1):
            outputs.append(bench_kernels(context, "steps"))
            limits = record_baton(context, outputs, recorder)
            record_peer(context, peer, found, limits, recorder)
    except NotMeasured as error:
        recorder.why(f"Baton's figures; torch: {error}")
        return
    finally:
        peer.close()
    recorder.detail("peer", peer.about)
    recorder.why(f"{context.sizes.rounds} rounds in turns with transformers {peer.about['transformers']} on torch "
                 f"{peer.about['torch']}")
