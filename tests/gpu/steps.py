"""The part that measures single steps: ceilings, decode, prefill, products and attention apart, and
transformers with torch on the same shape, in turns with Baton.
"""

import contextlib
import json
import os
import pathlib
import re
import select
import statistics
import subprocess
import time

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
    """What bench_kernels printed, and the problem that ended it before it had printed all, or ''."""

    def __init__(self, text, problem=""):
        head = HEAD.search(text)
        if head is None:
            raise Failure(f"bench_kernels said '{first(text)}' where its limits were expected")
        self.problem = problem
        self.numerics = head[1]
        self.flops_per_s, self.limit_name = float(head[3]) * 1e9, head[4]
        self.bytes_per_s = float(head[5]) * 1e9
        self.lines = {m[1]: {"ms": float(m[2]), "rate": float(m[3]), "unit": m[4], "percent": float(m[5]),
                             "of": m[6]} for m in LINE.finditer(text)}


def first(text):
    lines = text.strip().splitlines()
    return lines[0] if lines else "nothing"


def bench_kernels(context, only, *further, share=1.0):
    """A BenchOutput also where it ended badly, as long as it printed its limits. It may take `share` of the time
    that is left."""
    program = context.build.program("bench_kernels")
    if program is None:
        raise NotMeasured(f"bench_kernels is not in {context.build.origin}: build it")
    command = [str(program), "--device", context.device, "--shape", context.sizes.bench_shape, "--rounds",
               str(context.sizes.bench_rounds), "--only", only, *further]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False,
                                timeout=share * context.left(), env={**os.environ, **context.environment})
        printed, said = result.stdout, result.stderr
        problem = f"ended with {result.returncode}: {first(said or printed)}" if result.returncode else ""
    except subprocess.TimeoutExpired as error:
        printed, said = ((output or b"").decode(errors="replace") for output in (error.stdout, error.stderr))
        problem = f"was not done after {error.timeout:.0f} s"
    print(f"--- {' '.join(command)}\n{printed}{said}", flush=True)
    name = " ".join(["bench_kernels", *further])
    if problem and HEAD.search(printed) is None:
        raise Failure(f"{name} {problem}")
    return BenchOutput(printed, problem and f"{name} {problem}")


class Peer:
    """torch and transformers in a process of their own, asked line by line; idle in between."""

    def __init__(self, context, spare_s):
        """It answers, or is ended, while the part has more than `spare_s` left."""
        shape = json.dumps(vars(context.sizes.shape))
        command = [context.python, "-B", str(HERE / "torch_steps.py"), "--device", context.device, "--shape", shape]
        self._context, self._spare_s = context, spare_s
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.about = self._answer()

    def ask(self, **question):
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self):
        limit_s = max(0.0, self._context.left() - self._spare_s)
        if not select.select([self._process.stdout], [], [], limit_s)[0]:
            self._process.kill()
            raise NotMeasured(f"{self._context.python} with torch did not answer within {limit_s:.0f} s")
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
        with contextlib.suppress(OSError):  # it may have ended with a question unread
            self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


def limits_text(output):
    return f"{output.bytes_per_s / 1e9:.0f} GB/s", f"{output.flops_per_s / 1e12:.1f} TFLOP/s"


def problems_of(output, missing):
    """Why lines are missing, or that they are, as a list of texts."""
    if output.problem:
        return [output.problem]
    return [f"bench_kernels printed no line '{name}'" for name in missing]


def record_lines(output, names, prefix, suffix, sizes, recorder):
    """Fills in the rows `prefix` name `suffix` with the lines of one output; its problems."""
    for name in names:
        if line := output.lines.get(name):
            text = f"{line['ms']:.3f} ms, {line['rate']:.0f} {line['unit']}"
            recorder.row(f"{prefix}{name}{suffix}", baton=text + per_second(name, sizes, line["ms"]),
                         percent=line["percent"], data={"of": line["of"]})
    return problems_of(output, [name for name in names if name not in output.lines])


def record_baton(context, outputs, recorder):
    """Medians of what the rounds gave so far; their limits."""
    sizes = context.sizes
    bytes_per_s = statistics.median(output.bytes_per_s for output in outputs)
    flops_per_s = statistics.median(output.flops_per_s for output in outputs)
    recorder.row(COPY, baton=f"{bytes_per_s / 1e9:.0f} GB/s", data={"bytes_per_s": bytes_per_s,
                                                                    "is": outputs[0].limit_name})
    recorder.row(PRODUCT, baton=f"{flops_per_s / 1e12:.2f} TFLOP/s", data={"flops_per_s": flops_per_s})
    for row in bf16_rows(sizes)[2:]:
        found = [output.lines[row.what] for output in outputs if row.what in output.lines]
        if not found:
            continue
        ms = statistics.median(line["ms"] for line in found)
        text = f"{ms:.3f} ms, {statistics.median(line['rate'] for line in found):.0f} {found[0]['unit']}"
        recorder.row(row.what, baton=text + per_second(row.what, sizes, ms),
                     percent=statistics.median(line["percent"] for line in found),
                     data={"rounds": found, "of": found[0]["of"]})
    return bytes_per_s, flops_per_s


def record_fp8(context, recorder):
    """Steps and attention over a KV cache of fp8, once; that they are right is checked by part `kernels`."""
    output = bench_kernels(context, "steps,operations", "--kv-dtype", "fp8")
    return record_lines(output, fp8_names(context.sizes), "", ", KV cache of fp8", context.sizes, recorder)


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
    """Ceilings, then steps, in turns with transformers on torch (eager, sdpa, same shape, random weights); what
    is wrong is told at the end, when all that could be measured is recorded.
    """
    begin = time.monotonic()
    outputs = [bench_kernels(context, "matmuls,steps,operations")]
    run_s = time.monotonic() - begin
    recorder.detail("numerics", outputs[0].numerics)
    limits = record_baton(context, outputs, recorder)
    recorder.why("one round of Baton's")
    problems = problems_of(outputs[0], [row.what for row in bf16_rows(context.sizes)[2:]
                                        if row.what not in outputs[0].lines])
    try:
        line = turns(context, outputs, limits, run_s, recorder)
    except Failure as error:
        problems.append(str(error))
        line = "Baton's figures"
    problems += [output.problem for output in outputs[1:] if output.problem]
    recorder.why(line)
    problems += record_fp8(context, recorder)
    if problems:
        raise Failure("; ".join(problems))


def turns(context, outputs, limits, run_s, recorder):
    """Further rounds of Baton's in turns with torch; the part's line. Leaves time for one more run of `run_s`."""
    try:
        peer = Peer(context, run_s)
    except (NotMeasured, OSError, ValueError) as error:
        return f"Baton's figures; torch: {error}"
    try:
        asked = peer.ask(kind="limits")
        recorder.row(COPY, peer=f"{asked['bytes_per_s'] / 1e9:.0f} GB/s", data={"peer": asked["bytes_per_s"]})
        recorder.row(PRODUCT, peer=f"{asked['flops_per_s'] / 1e12:.2f} TFLOP/s", data={"peer": asked["flops_per_s"]})
        found = {}
        record_peer(context, peer, found, limits, recorder)
        while len(outputs) < context.sizes.rounds and context.left() > 2 * run_s:
            outputs.append(bench_kernels(context, "steps"))
            limits = record_baton(context, outputs, recorder)
            record_peer(context, peer, found, limits, recorder)
    except (NotMeasured, OSError, ValueError) as error:
        return f"Baton's figures; torch: {error}"
    finally:
        peer.close()
    recorder.detail("peer", peer.about)
    return (f"{len(outputs)} of {context.sizes.rounds} rounds in turns with transformers "
            f"{peer.about['transformers']} on torch {peer.about['torch']}")
