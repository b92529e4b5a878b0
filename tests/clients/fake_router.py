"""A router that fails as it is told, for clients that are to try again.

    fake_router.py STEPS.json

STEPS is a list with one step per call of Generate or ChatGenerate; the last one is for all further calls, too:
  {"code": "RESOURCE_EXHAUSTED", "reason": "QUEUE_FULL", "retry_after_s": 0.3}    fails; the last two may be absent
  {"tokens": 5, "code": …}                                       streams so many tokens, then the same
  {"tokens": 5, "pause_s": 0.5, "code": …}                       waits before it fails
  {"tokens": 5}                                                  streams so many tokens and a Final
  {"tokens": 5, "finish_reason": 101, "stop_cause": 102}         ends otherwise than by its length
  {"hang": true}                                                 streams nothing until the client goes

Token i is 100 + i with the text " wI" and one EosStep; that of answer k of several 1000 * k more, the answers come in
turns, and "ended" of a step are indices of answers that end before it fails. Prints a line with its port, then a line per call: when it
came, in seconds, its request and its metadata. Runs by Debian's Python, ends with its standard input.
"""

import concurrent.futures
import itertools
import json
import pathlib
import sys
import threading
import time

import grpc
from google.protobuf import json_format

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from client import message  # noqa: E402

SERVICE = "baton.v1.InferenceService"
TOLD = "the fake router was told so"


def details(step):
    """The trailer with what the step says."""
    # gRPC for Go looks at the details only where this is the call's own code.
    status = message("google.rpc.Status")(code=grpc.StatusCode[step["code"]].value[0], message=TOLD)
    if "reason" in step:
        info = message("google.rpc.ErrorInfo")(reason=step["reason"], domain="baton")
        status.details.add().Pack(info)
    if "retry_after_s" in step:
        retry = message("google.rpc.RetryInfo")()
        retry.retry_delay.FromNanoseconds(int(step["retry_after_s"] * 1e9))
        status.details.add().Pack(retry)
    return (("grpc-status-details-bin", status.SerializeToString()),)


class Fake:
    def __init__(self, steps):
        self._steps, self._lock, self._calls = steps, threading.Lock(), 0

    def stream(self, answer, request, context):
        with self._lock:
            step = self._steps[min(self._calls, len(self._steps) - 1)]
            self._calls += 1
            print(json.dumps({"at": time.monotonic(), "request": json_format.MessageToDict(
                request, preserving_proto_field_name=True),
                "metadata": {k: v for k, v in context.invocation_metadata() if isinstance(v, str)}}), flush=True)
        count = max(1, request.spec.sampling.n)
        while step.get("hang") and context.is_active():
            time.sleep(0.01)
        if "tokens" in step:
            seed = request.spec.sampling.seed if request.spec.sampling.HasField("seed") else 77
            yield answer(started={"request_id": request.spec.request_id or "made", "model": "fake",
                                  "prompt_tokens": 3, "seed": seed})
            for i, k in itertools.product(range(step["tokens"]), range(count)):
                token = 100 + i + 1000 * k + step.get("shift", 0)
                yield answer(delta={"text": f" w{i}", "token_ids": [token], "index": k,
                                    "eos_steps": [{"step": i + 1, "eos_prob": 0.25, "eos_prob_sampling": 0.25}]})
                if request.spec.eos.predict:
                    yield answer(prediction={"at_step": i + 1, "expected_remaining": 4, "p50": 3, "p90": 8,
                                             "predictor": "fake", "index": k})
            for k in step.get("ended", []):
                yield answer(final=self._final(step, k))
        time.sleep(step.get("pause_s", 0))
        if "code" in step:
            context.set_trailing_metadata(details(step))
            context.abort(grpc.StatusCode[step["code"]], TOLD)
        for k in range(count):
            final = self._final(step, k)
            if k == count - 1 and count > 1:
                final["total_usage"] = {"prompt_tokens": 3, "completion_tokens": count * step["tokens"]}
            yield answer(final=final)

    @staticmethod
    def _final(step, index):
        return {"finish_reason": step.get("finish_reason", "FINISH_REASON_LENGTH"),
                "stop_cause": step.get("stop_cause", "STOP_CAUSE_NONE"), "attempts": 1,
                "usage": {"prompt_tokens": 0 if index else 3, "completion_tokens": step["tokens"]},
                "decode_worker": "fake:1", "index": index}


def main():
    fake = Fake(json.loads(sys.argv[1]))
    handlers = {}
    for method in ("Generate", "ChatGenerate"):
        answer = message(f"baton.v1.{method}Response")
        handlers[method] = grpc.unary_stream_rpc_method_handler(
            lambda request, context, answer=answer: fake.stream(answer, request, context),
            request_deserializer=message(f"baton.v1.{method}Request").FromString,
            response_serializer=answer.SerializeToString)
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, handlers)])
    print(json.dumps({"port": server.add_insecure_port("127.0.0.1:0")}), flush=True)
    server.start()
    sys.stdin.read()
    server.stop(0).wait()


if __name__ == "__main__":
    main()
