"""How processes end that are told to: what is under way ends first, unless it hangs."""

import os
import signal
import threading
import time
import unittest

import client
from cluster import Cluster, wait_until


def long_answer(cluster, tokens):
    return client.Client(cluster.router.grpc).generate({"text": "Once upon a time", "spec": {
        "stop": {"maxTokens": tokens, "eosPolicy": "EOS_POLICY_IGNORE_MASK"}}})


class DrainTest(unittest.TestCase):
    def test_drain_lets_a_stream_finish(self):
        with Cluster() as cluster:
            stream = long_answer(cluster, 300)
            next(stream)
            events = [next(stream)]
            codes = []
            ender = threading.Thread(target=lambda: codes.append(cluster.router.terminate()))
            ender.start()
            events += list(stream)
            ender.join()
            self.assertEqual(codes, [0])
            self.assertEqual(sum(len(e.delta.token_ids) for e in events), 300)

    def test_who_gets_sigterm_twice_at_once_drains_all_the_same(self):
        for role in "decode", "router":
            with self.subTest(role):
                self.assertTrue(any(self.drained_by_two_signals(role) for _ in range(5)),
                                "this machine never sent two signals at once")

    def drained_by_two_signals(self, role):
        """Whether both came so soon that they count as one; then the drain must have ended as after one."""
        with Cluster(prefill=0) as cluster:
            stream = long_answer(cluster, 1000)
            next(stream)
            events = [next(stream)]
            process = {"decode": cluster.decode[0], "router": cluster.router}[role]
            begin = time.monotonic()
            os.kill(process.pid, signal.SIGTERM)
            time.sleep(0.01)  # for the first one to be taken
            os.kill(process.pid, signal.SIGTERM)
            if time.monotonic() - begin > 0.09:
                return False
            events += list(stream)
            wait_until(lambda: not process.running(), "the end of the drain")
            self.assertEqual(process.exit_code(), 0, process.tail())
            self.assertEqual(sum(len(e.delta.token_ids) for e in events), 1000)
            self.assertEqual(events[-1].final.attempts, 1)
            return True

    def test_a_step_that_hangs_ends_its_worker_whether_it_drains_or_not(self):
        with Cluster(decode=2, prefill=0, decode_flags=["--enable-failpoints", "--drain-timeout", "1s"],
                     worker_environment={"BATON_FAILPOINT": "stepping@3:delay_ms=3600000"}) as cluster:
            streams = [long_answer(cluster, 300) for _ in cluster.decode]
            for stream in streams:  # each at a worker of its own
                next(stream)
            drained, other = cluster.decode
            for worker in cluster.decode:
                wait_until(lambda: "failpoint stepping hit" in worker.tail(), "the step that hangs")
            self.assertEqual(drained.terminate(), 4, drained.tail())
            self.assertIn("drained", drained.tail())
            self.assertIn("the engine stopped", drained.tail())
            wait_until(lambda: not other.running(), "the end of the worker that did not drain")
            self.assertEqual(other.exit_code(), 4, other.tail())
            # What an alert goes by: nobody scrapes the worker in its last second.
            self.assertGreaterEqual(cluster.router.metrics().sum("baton_attempts_total", outcome="device_fault"), 1)


if __name__ == "__main__":
    unittest.main()
