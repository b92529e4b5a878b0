"""The part that starts everything as a reader of the README does: `baton serve`, with no size given.

On one GPU its two workers divide the memory, and KV goes from the one to the other inside it.
"""

import tempfile
import urllib.request

import transports
from plan import Failure


def worker(ready, role, cluster):
    """The metrics of the worker of that role, whose address the ready line names."""
    admin = next(entry["admin"] for entry in ready["workers"] if entry["role"] == role)
    with urllib.request.urlopen(f"http://{admin}/metrics", timeout=10) as answer:
        return cluster.Metrics(answer.read().decode())


def check(context, recorder):
    cluster = transports.load_cluster(context)
    expected = transports.reference(context, "float32", False)
    with tempfile.TemporaryDirectory(dir=context.work) as folder:
        process = cluster.Process(
            "serve", [context.build.bin / "baton", "serve", cluster.DEMO_MODEL, "--device", context.device, "--dtype",
                      "float32", "--port", "0", "--admin-port", "0", "--eos-log", "off"], folder)
        try:
            process.wait_ready()
            answers = cluster.generate(process.grpc, transports.requests(False), "--chat")
            wrong, _ = transports.compare(answers, expected, allow_ties=False)
            if wrong:
                raise Failure(f"answers of `baton serve` differ from a unified worker's: {'; '.join(wrong[:2])}")
            blocks = {role: worker(process.ready, role, cluster).sum("baton_kv_blocks")
                      for role in ("prefill", "decode")}
            if context.device == "cuda":
                cluster.wait_until(lambda: worker(process.ready, "prefill", cluster).sum("baton_kv_pairs") >= 1,
                                   "a pair of devices inside one GPU")
            if process.terminate() != 0:
                raise Failure(f"`baton serve` did not end well after SIGTERM:\n{process.tail()}")
        except AssertionError:
            print(process.tail())
            raise
        finally:
            process.kill()
    recorder.detail("kv_blocks", blocks)
    recorder.why(f"{len(answers)} answers equal; KV blocks: prefill {blocks['prefill']:.0f}, "
                 f"decode {blocks['decode']:.0f}")
