"""A step of several seconds is slowness, not death: all is waited for, in one attempt.

The deadlines are those of the product, which other tests shorten.
"""

import time
import unittest

import client
from cluster import Cluster, wait_until

# Longer than a router waits for a reservation (6 s) or for `Started` (5 s) before it looks whether
# the worker still speaks.
STEP_S = 7
TOKENS = 40


def slow_step(role, number):
    point = f"stepping@{number}:delay_ms={STEP_S * 1000}"
    return {"flags": ["--enable-failpoints"],
            "role_environment": {role: {"BATON_FAILPOINT": point}}}


def ask(cluster, text):
    return client.Client(cluster.router.grpc).generate({"text": text, "spec": {
        "stop": {"maxTokens": TOKENS, "eosPolicy": "EOS_POLICY_IGNORE_MASK"}}})


class SlowTest(unittest.TestCase):
    def complete_in_one_attempt(self, cluster, streams):
        """Reads all of them; nothing was tried twice and nobody is thought dead."""
        for stream in streams:
            events = list(stream)
            self.assertEqual(sum(len(event.delta.token_ids) for event in events), TOKENS)
            self.assertEqual(events[-1].final.attempts, 1)
        metrics = cluster.router.metrics()
        self.assertEqual(metrics.sum("baton_attempts_total"), len(streams))
        self.assertEqual(metrics.sum("baton_attempts_total", outcome="finished"), len(streams))
        self.assertEqual(metrics.sum("baton_router_worker_up"), 2)
        for process in cluster.processes():
            self.assertTrue(process.running(), process.tail())
        cluster.assert_nothing_held()

    def test_a_reservation_and_an_answer_wait_for_a_slow_step_of_the_decode_worker(self):
        with Cluster(**slow_step("decode", 5)) as cluster:
            first = ask(cluster, "Once upon a time")
            decode = cluster.decode[0]
            wait_until(lambda: "failpoint stepping hit" in decode.tail(), "the slow step")
            begin = time.monotonic()
            second = ask(cluster, "A fox and a mouse")
            self.complete_in_one_attempt(cluster, [first, second])
            self.assertGreater(time.monotonic() - begin, STEP_S - 1, "nothing waited for the step")

    def test_a_prompt_waits_for_a_slow_step_of_the_prefill_worker(self):
        with Cluster(**slow_step("prefill", 1)) as cluster:
            begin = time.monotonic()
            stream = ask(cluster, "Once upon a time")
            self.complete_in_one_attempt(cluster, [stream])
            self.assertGreater(time.monotonic() - begin, STEP_S, "nothing waited for the step")


if __name__ == "__main__":
    unittest.main()
