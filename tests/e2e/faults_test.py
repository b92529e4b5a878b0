"""The kill matrix: a worker stops in a named state and is then killed, left by its client, or late.

One row per (role, state); `preempted` needs a crowd and a pool that is too small for it. Whatever happens the client has each token exactly once and the same as
undisturbed, the EOS log has each row once, and no block stays held.

`faults_test.py --scheme w4 ...` has the workers serve the demo model quantized so, in groups of 32.
"""

import argparse
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

import client
from cluster import BIN, DEMO_MODEL, PATIENCE_S, Cluster, wait_until

DECODE_STATES = ["accepted", "queued", "reserved", "receiving", "committing", "started",
                 "decoding@7", "finishing"]
# Before a running sequence is preempted, reservations are revoked: only without them it surely comes to it.
LOCAL_STATES = ["accepted", "queued", "prefilling", "started", "decoding@7", "preempted", "finishing"]
PREFILL_STATES = ["accepted", "queued", "prefilling", "pushing", "first_token", "first_token_sent",
                  "committing", "committed"]
REQUEST = {"messages": [{"role": "user", "content": "Tell me a story about a fox and a mouse by a river."}],
           "temperature": 0.9, "seed": 5, "max_tokens": 40, "eos": "mask"}
# Long enough that it is still running when a worker's stop is seen: a failpoint stops the thread that
# hits it, and until then the other threads go on with the request.
WIRE = {"messages": REQUEST["messages"],
        "spec": {"sampling": {"temperature": 0.9, "seed": "5"},
                 "stop": {"maxTokens": 1500, "eosPolicy": "EOS_POLICY_IGNORE_MASK"}}}
FAST = ["--max-num-batched-tokens", "16"]  # several chunks a prompt
# The pool holds one of these requests to its end, and no two beside each other.
CROWD = 4
TIGHT = ["--kv-cache-tokens", "192"]
LENGTH_IN_A_CROWD = 120


def crowd_of(state):
    """How many requests run side by side in the row of `state`."""
    return CROWD if state == "preempted" else 1


def requests(state):
    length = {"max_tokens": LENGTH_IN_A_CROWD} if state == "preempted" else {}
    return [{**REQUEST, **length, "request_id": f"r{i}", "seed": 5 + i} for i in range(crowd_of(state))]


def wire_request(state):
    spec = {**WIRE["spec"], "stop": dict(WIRE["spec"]["stop"])}
    if state == "preempted":
        spec["stop"]["maxTokens"] = LENGTH_IN_A_CROWD
    if state == "finishing":  # which has to come before any deadline
        spec["stop"]["maxTokens"] = REQUEST["max_tokens"]
    return {**WIRE, "spec": spec}


def armed(role, state, local, model=DEMO_MODEL):
    """A service whose one worker of `role` stops in `state` (the first time, or `state@N`)."""
    spec = state if "@" in state else f"{state}@1"
    flags = {f"{role}_flags": ["--enable-failpoints"]}
    return Cluster(model=model, prefill=0 if local else 1, flags=FAST + (TIGHT if state == "preempted" else []),
                   worker_environment={"BATON_FAILPOINT": f"{spec}:stop"}, **flags)


def ends_before(role, state):
    """How a request may end all the same when a worker stops in `state`, others of a crowd too.

    A failpoint stops the thread that hits it first; until the others stand still, a prefill worker's
    engine and sender may get the commit out, and then the decode worker needs nobody else.
    """
    if role == "prefill":
        return ["length"] if state in ("queued", "first_token_sent", "committing", "committed") else []
    return ["length"] if state in ("finishing", "preempted") else []


def victim_of(service, role):
    return (service.decode if role == "decode" else service.prefill)[0]


class KillMatrix(unittest.TestCase):
    scheme = None  # by which `baton model quantize` makes the model that is served
    model = DEMO_MODEL

    @classmethod
    def setUpClass(cls):
        if cls.scheme is not None:
            folder = tempfile.TemporaryDirectory(prefix="baton-faults-")
            cls.addClassCleanup(folder.cleanup)
            cls.model = pathlib.Path(folder.name) / cls.scheme
            subprocess.run([BIN / "baton", "model", "quantize", DEMO_MODEL, cls.model, "--scheme", cls.scheme,
                            "--group", "32"], check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE_S)
        with Cluster(model=cls.model, flags=FAST) as service:
            cls.undisturbed = {state: service.generate(requests(state), "--chat")
                               for state in ("", "preempted")}

    def rows(self):
        yield from (("decode", state, False) for state in DECODE_STATES)
        yield from (("decode", state, True) for state in LOCAL_STATES)
        yield from (("prefill", state, False) for state in PREFILL_STATES)

    def test_kill(self):
        for role, state, local in self.rows():
            with self.subTest(role=role, state=state, local=local), \
                    armed(role, state, local, self.model) as service:
                self.kill_row(service, role, state)

    def kill_row(self, service, role, state):
        answers = []
        thread = threading.Thread(target=lambda: answers.extend(service.generate(
            requests(state), "--chat", concurrency=crowd_of(state), check=False)))
        thread.start()
        victim = victim_of(service, role)
        wait_until(victim.stopped, "the failpoint")
        port = victim.grpc.rsplit(":", 1)[1]
        victim.kill()
        (service.decode if role == "decode" else service.prefill).remove(victim)
        service.worker_environment = {}
        service.spawn_worker(role, port=port).wait_ready()
        thread.join()
        undisturbed = self.undisturbed.get(state, self.undisturbed[""])
        for answer, expected in zip(answers, undisturbed, strict=True):
            self.same(service, answer, expected)
        service.assert_nothing_held()

    def same(self, service, answer, expected):
        for key in ("token_ids", "finish_reason", "text"):
            self.assertEqual(answer.get(key), expected[key], answer)
        rows = service.finished_rows(expected["request_id"])
        self.assertEqual([row["step"] for row in rows], list(range(1, len(answer["token_ids"]) + 1)))

    def test_cancel(self):
        for role, state, local in self.rows():
            with self.subTest(role=role, state=state, local=local), \
                    armed(role, state, local, self.model) as service:
                wire = client.Client(service.router.grpc)
                calls = self.chat(service, wire, state)
                victim = victim_of(service, role)
                wait_until(victim.stopped, "the failpoint")
                for call in calls:
                    call.cancel()
                self.counted(service, len(calls), "abort", *ends_before(role, state))
                os.kill(victim.pid, signal.SIGCONT)
                service.assert_nothing_held()
                wire.close()

    def test_deadline(self):
        for role, state, local in self.rows():
            with self.subTest(role=role, state=state, local=local), \
                    armed(role, state, local, self.model) as service:
                wire = client.Client(service.router.grpc)
                calls = self.chat(service, wire, state, timeout_s=3)
                victim = victim_of(service, role)
                wait_until(victim.stopped, "the failpoint")
                self.counted(service, len(calls), "deadline", "abort", *ends_before(role, state))
                os.kill(victim.pid, signal.SIGCONT)
                service.assert_nothing_held()
                for call in calls:
                    call.cancel()
                wire.close()

    @staticmethod
    def chat(service, wire, state, **options):
        """The requests of a row, once the router has them all."""
        calls = [wire.stream("baton.v1.InferenceService/ChatGenerate", wire_request(state), **options)
                 for _ in range(crowd_of(state))]
        wait_until(lambda: service.router.metrics().sum("baton_requests_received_total") == len(calls),
                   "the requests at the router")
        return calls

    def counted(self, service, count, *reasons):
        """The requests ended for one of `reasons` (a client's deadline can look like its cancel)."""
        names = ("baton_request_success_total", "baton_request_failure_total")

        def ended():
            return sum(value for name, labels, value in service.router.metrics().series
                       if name in names and labels["finished_reason"] in reasons)

        wait_until(lambda: ended() == count, f"the requests counted as {reasons}")
        if count > 1:
            self.assertLess(service.router.metrics().sum(
                "baton_request_success_total", finished_reason="length"), count, "who was preempted had not ended")


class Restart(unittest.TestCase):
    def test_two_routers_side_by_side(self):
        with Cluster(decode=2, prefill=2) as service:
            first = service.router
            second = service.spawn_router("second").wait_ready()
            try:
                service.wait_routable(second)
                expected = service.generate([{**REQUEST, "request_id": "x"}], "--chat")
                first.kill()
                service.router = second
                again = service.generate([{**REQUEST, "request_id": "y"}], "--chat")
                self.assertEqual(again[0]["token_ids"], expected[0]["token_ids"])
                service.assert_nothing_held()
            finally:
                first.kill()
                second.kill()

    def test_router_death_frees_the_workers(self):
        with Cluster() as service:
            wire = client.Client(service.router.grpc)
            call = wire.generate({"text": "Once upon a time", "spec": {
                "stop": {"maxTokens": 1500, "eosPolicy": "EOS_POLICY_IGNORE_MASK"}}})
            next(call)
            next(call)
            service.router.kill()
            for worker in service.processes()[:-1]:
                wait_until(lambda w=worker: service._held_blocks(w) == 0, "free blocks")
            wire.close()

    def test_a_worker_of_another_model_is_never_paired(self):
        with Cluster(decode=1, prefill=0, flags=["--dtype", "float32"]) as service:
            service.flags = ["--threads", "1", "--kv-cache-memory", "64MiB", "--dtype", "bfloat16"]
            service.spawn_worker("prefill").wait_ready()
            service.router.terminate()
            service.router = service.spawn_router().wait_ready()
            service.wait_routable(service.router)
            service.wait_all_seen()
            answer = service.generate([{**REQUEST, "request_id": "z"}], "--chat")[0]
            self.assertFalse(answer["workers"]["prefill"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--scheme")
    known, others = parser.parse_known_args()
    KillMatrix.scheme = known.scheme
    unittest.main(argv=[sys.argv[0], *others])
