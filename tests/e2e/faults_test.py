"""The kill matrix: a worker stops in a named state and is then killed, left by its client, or late.

One row per (role, state). Whatever happens the client has each token exactly once and the same as
undisturbed, the EOS log has each row once, and no block stays held.
"""

import os
import signal
import threading
import unittest

import client
from cluster import Cluster, wait_until

DECODE_STATES = ["accepted", "queued", "reserved", "receiving", "committing", "started",
                 "decoding@7", "finishing"]
LOCAL_STATES = ["accepted", "queued", "prefilling", "started", "decoding@7", "finishing"]
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


def armed(role, state, local):
    """A service whose one worker of `role` stops in `state` (the first time, or `state@N`)."""
    spec = state if "@" in state else f"{state}@1"
    flags = {f"{role}_flags": ["--enable-failpoints"]}
    return Cluster(prefill=0 if local else 1, flags=FAST,
                   worker_environment={"BATON_FAILPOINT": f"{spec}:stop"}, **flags)


def ends_before(state):
    """How the request may have ended already when a worker reaches `state`."""
    return ["length"] if state in ("finishing", "committed") else []


def victim_of(service, role):
    return (service.decode if role == "decode" else service.prefill)[0]


class KillMatrix(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with Cluster(flags=FAST) as service:
            cls.undisturbed = service.generate([{**REQUEST, "request_id": "ref"}], "--chat")[0]

    def rows(self):
        yield from (("decode", state, False) for state in DECODE_STATES)
        yield from (("decode", state, True) for state in LOCAL_STATES)
        yield from (("prefill", state, False) for state in PREFILL_STATES)

    def test_kill(self):
        for role, state, local in self.rows():
            with self.subTest(role=role, state=state, local=local), \
                    armed(role, state, local) as service:
                self.kill_row(service, role)

    def kill_row(self, service, role):
        answers = []
        thread = threading.Thread(target=lambda: answers.extend(
            service.generate([{**REQUEST, "request_id": "r"}], "--chat", check=False)))
        thread.start()
        victim = victim_of(service, role)
        wait_until(victim.stopped, "the failpoint")
        port = victim.grpc.rsplit(":", 1)[1]
        victim.kill()
        (service.decode if role == "decode" else service.prefill).remove(victim)
        service.worker_environment = {}
        service.spawn_worker(role, port=port).wait_ready()
        thread.join()
        answer = answers[0]
        self.assertEqual(answer.get("token_ids"), self.undisturbed["token_ids"], answer)
        self.assertEqual(answer["finish_reason"], self.undisturbed["finish_reason"])
        self.assertEqual(answer["text"], self.undisturbed["text"])
        n = len(answer["token_ids"])
        rows = wait_until(
            lambda: [r for r in service.eos_rows("r")]
            if service.eos_rows("r") and service.eos_rows("r")[-1]["is_finished"] else None,
            "the EOS log")
        self.assertEqual([row["step"] for row in rows], list(range(1, n + 1)))
        service.assert_nothing_held()

    def test_cancel(self):
        for role, state, local in self.rows():
            with self.subTest(role=role, state=state, local=local), \
                    armed(role, state, local) as service:
                wire = client.Client(service.router.grpc)
                call = wire.stream("baton.v1.InferenceService/ChatGenerate", WIRE)
                victim = victim_of(service, role)
                wait_until(victim.stopped, "the failpoint")
                call.cancel()
                self.counted(service, "abort", *ends_before(state))
                os.kill(victim.pid, signal.SIGCONT)
                service.assert_nothing_held()
                wire.close()

    def test_deadline(self):
        for role, state, local in self.rows():
            with self.subTest(role=role, state=state, local=local), \
                    armed(role, state, local) as service:
                wire = client.Client(service.router.grpc)
                call = wire.stream("baton.v1.InferenceService/ChatGenerate", WIRE, timeout_s=3)
                victim = victim_of(service, role)
                wait_until(victim.stopped, "the failpoint")
                self.counted(service, "deadline", "abort", *ends_before(state))
                os.kill(victim.pid, signal.SIGCONT)
                service.assert_nothing_held()
                call.cancel()
                wire.close()

    def counted(self, service, *reasons):
        """The request ended for one of `reasons` (a client's deadline can look like its cancel)."""
        wait_until(lambda: any(service.router.metrics().sum(
            "baton_request_success_total", finished_reason=reason) == 1 for reason in reasons),
            f"the request counted as {reasons}")


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
            answer = service.generate([{**REQUEST, "request_id": "z"}], "--chat")[0]
            self.assertFalse(answer["workers"]["prefill"])


if __name__ == "__main__":
    unittest.main()
