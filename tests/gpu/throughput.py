"""Parts that measure what a model of the measured shape gives: the rate of the handoff of a long prompt, and a
load on one worker beside the continuous batching of transformers.
"""

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

import report
import transports
from plan import Failure, NotMeasured, Skip, first_line

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))


def run_checked(command, context, environment=None):
    try:
        result = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False,
                                timeout=context.left(), env=environment or {**os.environ, **context.environment})
    except subprocess.TimeoutExpired as error:
        raise Failure(f"{pathlib.Path(command[0]).name} {command[1]} was not done after "
                      f"{error.timeout:.0f} s") from error
    print(f"--- {' '.join(map(str, command))}\n{result.stdout[-5000:]}{result.stderr[-5000:]}", flush=True)
    if result.returncode != 0:
        raise Failure(f"{pathlib.Path(command[0]).name} {command[1]} ended with {result.returncode}: "
                      f"{result.stderr.strip()[-300:]}")
    return result


# --- the model ---

def model_bytes(shape):
    """The size that `make-random` writes, where the embedding has a matrix of its own."""
    return shape.weight_bytes() + 2 * shape.vocab * shape.hidden


def make_model(context, recorder):
    """Random weights of the measured shape, made here."""
    folder, shape = context.model, context.sizes.shape
    free = shutil.disk_usage(folder.parent).free
    need = model_bytes(shape) + (1 << 30)
    if free < need:
        raise NotMeasured(f"{folder.parent} has {free / 1e9:.0f} GB free, the model needs {need / 1e9:.0f} GB: "
                          "name a larger folder with --work")
    begin = time.monotonic()
    run_checked([context.build.bin / "baton", "model", "make-random", folder, "--arch", "llama", *shape.flags(),
                 "--dtype", "bfloat16", "--seed", "1", "--max-positions", "16384"], context)
    seconds = time.monotonic() - begin
    size = sum(path.stat().st_size for path in folder.iterdir())
    (folder / "complete").touch()
    recorder.detail("bytes", size)
    recorder.why(f"{size / 1e9:.2f} GB in {seconds:.1f} s, {size / seconds / 1e9:.1f} GB/s")


def need_model(context):
    folder = context.model
    if not (folder / "complete").exists():
        raise NotMeasured("there is no model: the part `model` did not make it")
    return folder


def worker_flags(flags):
    """`flags`, and half of the cores for each of two workers: to load, and on the CPU backend to compute."""
    return ["--threads", str(max(1, (os.cpu_count() or 1) // 2)), *flags]


# --- the handoff ---

def handoff_rows(sizes):
    what = f"handoff of {sizes.handoff_tokens} tokens by {sizes.handoff_way}"
    return [report.Row(f"{what}, after a prompt in one step"),
            report.Row(f"{what}, hidden behind steps of {sizes.chunk_tokens}")]


def long_prompts(sizes, count):
    """Prompts without a common beginning, so that nothing is skipped. The answers are long enough to end after the
    prefill worker's last word, which carries the time of the push.
    """
    return [{"request_id": f"p{number}", "token_ids": [(i * 7 + number * 13 + 5) % 250
                                                      for i in range(sizes.handoff_tokens)],
             "max_tokens": 32, "temperature": 0, "eos": "mask"} for number in range(count)]


def measure_handoffs(running, sizes, way):
    """Milliseconds of each push after the first token, and the bytes of one."""
    transports.warm_with(running, way, long_prompts(sizes, 1))
    prefill = running.prefill[0]
    before, sent = prefill.metrics().sum("baton_kv_transfer_bytes_sum"), transports.pushes(running, way)
    answers = []
    for request in long_prompts(sizes, sizes.handoffs + 1)[1:]:
        answers += running.generate([request])
    after = prefill.metrics().sum("baton_kv_transfer_bytes_sum")
    if sent is not None and transports.pushes(running, way) - sent < len(answers):
        raise Failure(f"some of {len(answers)} handoffs did not go by {way}\n{prefill.tail(15)}")
    times = [answer["timings_ms"] for answer in answers if answer["timings_ms"]["kv_transfer"] > 0]
    if not times:
        raise Failure(f"all {len(answers)} answers ended before the prefill worker had said how long its push took")
    return {"after_first_token_ms": [t["kv_transfer"] for t in times],
            "prefill_ms": [t["prefill"] for t in times], "ttft_ms": [t["ttft"] for t in times],
            "bytes": (after - before) / len(answers)}


def long_service(context, way):
    """Two workers of the measured shape; the prefill worker computes a whole prompt in one step."""
    sizes = context.sizes
    cluster = transports.load_cluster(context)
    flags = ["--device", context.device, "--dtype", "bfloat16", "--no-enable-prefix-caching", "--kv-cache-tokens",
             str(3 * sizes.handoff_tokens), "--max-model-len", str(sizes.handoff_tokens + 64), "--max-num-seqs", "8",
             *transports.way_flags(context, way)]

    class Service(cluster.Cluster):
        """`step_tokens` holds for the prefill workers started from then on."""
        step_tokens = sizes.handoff_tokens

        def spawn_worker(self, role, port=0, environment=None, extra=()):
            steps = self.step_tokens if role == "prefill" else sizes.chunk_tokens
            return super().spawn_worker(role, port, environment, [
                *extra, "--max-num-batched-tokens", steps, "--max-prefill-tokens", steps])
    made = Service(model=need_model(context), flags=flags)
    made.flags = worker_flags(flags)
    return made


def handoff(context, recorder):
    """How fast the KV of a long prompt moves when all of it is sent at the end, and how much of that time is hidden
    when the prompt is computed in chunks: each is sent while the next one computes, and what is hidden is the part of
    the time that is no longer seen after the first token.
    """
    sizes = context.sizes
    way = sizes.handoff_way
    whole_row, hidden_row = (row.what for row in handoff_rows(sizes))
    with long_service(context, way) as running:
        whole = measure_handoffs(running, sizes, way)
        seconds = statistics.median(whole["after_first_token_ms"]) / 1e3
        rate = whole["bytes"] / seconds
        recorder.row(whole_row, baton=f"{rate / 1e9:.2f} GB/s, {seconds * 1e3:.1f} ms for "
                     f"{whole['bytes'] / 2**20:.1f} MiB", data=whole)
        recorder.why("prompts in one step")
        # Another prefill worker in the place of the first, with smaller steps.
        port = running.prefill[0].grpc.rsplit(":", 1)[1]
        running.prefill.pop(0).terminate()
        running.step_tokens = sizes.chunk_tokens
        running.spawn_worker("prefill", port=port).wait_ready()
        running.wait_routable(running.router)
        chunked = measure_handoffs(running, sizes, way)
        left = statistics.median(chunked["after_first_token_ms"]) / 1e3
        recorder.row(hidden_row, baton=f"{100 * max(0.0, 1 - left / seconds):.1f} %, {left * 1e3:.1f} ms are left",
                     data=chunked)
        running.assert_nothing_held()
    recorder.why(f"{sizes.handoffs} prompts each way; first token after "
                 f"{statistics.median(whole['ttft_ms']):.0f} ms in one step, "
                 f"{statistics.median(chunked['ttft_ms']):.0f} ms in steps of {sizes.chunk_tokens}")


# --- a load on one worker ---

def load_rows(sizes):
    few, many = ("{} to {}".format(*lengths) for lengths in (sizes.user_input, sizes.user_output))
    return [report.Row(f"{sizes.users} users, {few} tokens in, {many} out, one worker", has_peer=True)]


def load_tokens(sizes):
    """How many tokens of KV cache hold all users at once, with some room."""
    return sizes.users * (sizes.user_input[1] + sizes.user_output[1] + 256)


def bench(context, server, seed, out, protocol=(), requests=None):
    """Figures of the measured window of one `baton bench`."""
    from compare_runs import problem_of  # pylint: disable=import-outside-toplevel
    sizes = context.sizes
    run_checked([context.build.bin / "baton", "bench", "--server", server, *protocol, "--concurrency",
                 sizes.users, "--requests", requests or sizes.user_requests, "--warmup", "0s", "--input-tokens",
                 "{}:{}".format(*sizes.user_input), "--output-tokens", "{}:{}".format(*sizes.user_output), "--eos",
                 "continue", "--runs", "1", "--seed", seed, "--out", out], context)
    result = json.loads(pathlib.Path(out).read_text())
    if problem := problem_of(result):
        raise Failure(f"baton bench: {problem}")
    return result["runs"][0]["figures"]


def figures_text(found):
    """Medians of rounds as a cell of the table."""
    def median(*names):
        values = []
        for figures in found:
            for name in names:
                figures = figures and figures[name]
            if figures is not None:
                values.append(figures)
        return statistics.median(values) if values else float("nan")
    return (f"{median('output_throughput'):.0f} tokens/s, TTFT p50 {median('ttft_ms', 'p50'):.0f} ms, "
            f"TPOT p50 {median('tpot_ms', 'p50'):.1f} ms")


def start_peer(context, model):
    """transformers' continuous batching behind scripts/transformers_server.py; NotMeasured when it does not run."""
    from compare_servers import CompareError, Server, Transformers  # pylint: disable=import-outside-toplevel
    sizes = context.sizes
    # The kernel ends it with this part, however that ends.
    command = ["setpriv", "--pdeathsig", "KILL", context.python, "-B", str(ROOT / "scripts/transformers_server.py"),
               str(model), "--device", context.device, "--threads", str(os.cpu_count() or 1), "--kv-tokens",
               str(load_tokens(sizes)), "--max-requests", str(sizes.users), "--max-batch-tokens", "8192"]
    try:
        # torch has libraries of its own.
        return Server(command, context.work / "transformers.log", Transformers.ready,
                      {"LD_LIBRARY_PATH": context.own_library_path}, limit_s=context.left())
    except CompareError as error:
        print(error, flush=True)
        raise NotMeasured(f"transformers' server did not start: {first_line(error)}") from error


def serving(context, recorder):
    """`baton bench` on one unified worker, in turns with transformers' continuous batching."""
    sizes, model = context.sizes, need_model(context)
    row = load_rows(sizes)[0].what
    cluster = transports.load_cluster(context)
    flags = ["--device", context.device, "--dtype", "bfloat16", "--max-num-seqs", str(sizes.users),
             "--kv-cache-tokens", str(load_tokens(sizes)), "--max-model-len", "4096", "--max-num-batched-tokens", "8192",
             "--max-prefill-tokens", "8192", "--no-enable-prefix-caching"]
    protocol = ["--protocol", "openai", "--vocab-size", str(sizes.shape.vocab)]
    baton, peer = [], []
    made = cluster.Cluster(model=model, prefill=0)
    made.flags = worker_flags(flags)
    out = context.work / "bench.json"
    with made as running:
        # What is done once is not compared.
        bench(context, running.router.grpc, 1, out, requests=sizes.users)
        baton.append(bench(context, running.router.grpc, 2, out))
        recorder.row(row, baton=figures_text(baton), data={"baton": baton})
        recorder.why("Baton's figures")
        try:
            server = start_peer(context, model)
        except NotMeasured as error:
            recorder.why(f"Baton's figures; {error}")
            return
        try:
            bench(context, server.address, 1, out, protocol, requests=sizes.users)
            for seed in range(2, 2 + sizes.load_rounds):
                peer.append(bench(context, server.address, seed, out, protocol))
                baton.append(bench(context, running.router.grpc, seed + 1, out))
                recorder.row(row, baton=figures_text(baton), peer=figures_text(peer),
                             data={"baton": baton, "peer": peer})
        except (Failure, Skip) as error:
            recorder.why(f"Baton's figures; transformers' continuous batching: {error}")
            return
        finally:
            server.stop()
    recorder.why(f"{len(baton)} runs, {len(peer)} of transformers' continuous batching in turns")
