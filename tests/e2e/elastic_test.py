"""Workers that change their role while they serve: load that turns from prompts to answers, and a death."""

import random
import threading
import unittest

from cluster import Cluster, Failure, generate, wait_until

WORKERS = 3
# Small steps that take a while, so that prompts wait on a fast machine, too.
FLAGS = ("--elastic", "--elastic-cool-down", "1s", "--max-num-seqs", "64", "--max-num-batched-tokens", "256",
         "--enable-failpoints")
SLOW_STEPS = {"BATON_FAILPOINT": "stepping:delay_ms=15"}
# One worker computes prompts for longer than may be, and those that decode have seats to spare.
AT_ONCE_PROMPTS = 30
# More answers than one worker has seats.
AT_ONCE_ANSWERS = 110


def prompts(count):
    """Long prompts and short answers."""
    dice = random.Random(1)
    return [{"request_id": f"p-{i}", "prompt": "".join(dice.choice("abcdefgh ") for _ in range(700)),
             "max_tokens": 2, "seed": i} for i in range(count)]


def answers(count):
    """Short prompts and long answers."""
    return [{"request_id": f"a-{i}", "prompt": f"Once upon a time {i}", "max_tokens": 200, "eos": "continue",
             "seed": i} for i in range(count)]


def tokens(results):
    return {answer["request_id"]: answer["token_ids"] for answer in results}


class ElasticCluster(Cluster):
    """The same workers stand in both lists of the router."""

    def __init__(self, workers=WORKERS, flags=FLAGS, router_flags=()):
        super().__init__(decode=workers, prefill=0, decode_flags=flags, router_flags=router_flags, eos_log=False,
                         worker_environment=SLOW_STEPS)

    def spawn_router(self, name="router"):
        self.prefill = self.decode
        try:
            return super().spawn_router(name)
        finally:
            self.prefill = []

    def alive(self):
        return [worker for worker in self.decode if worker.running()]

    def taking(self, work):
        return [worker for worker in self.alive() if worker.metrics().sum("baton_worker_takes", work=work) == 1]

    def changes(self, **labels):
        return sum(worker.metrics().sum("baton_role_changes_total", **labels) for worker in self.alive())


class ElasticTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.prompts, cls.answers = prompts(90), answers(120)
        with Cluster(decode=1, prefill=0, eos_log=False) as alone:
            cls.expected = tokens(alone.generate(cls.prompts + cls.answers, concurrency=24))

    def ask(self, cluster, requests, concurrency):
        got = tokens(cluster.generate(requests, concurrency=concurrency))
        self.assertEqual(got, {key: self.expected[key] for key in got})
        self.assertEqual(len(got), len(requests))

    def ask_until(self, cluster, requests, concurrency, **labels):
        """The same load until a role changed so, as `labels` says."""
        before = cluster.changes(**labels)
        for _ in range(8):
            self.ask(cluster, requests, concurrency)
            if cluster.changes(**labels) > before:
                return
        raise Failure(f"no role changed {labels}:\n" + "\n".join(worker.tail() for worker in cluster.decode))

    def test_roles_follow_the_load_and_no_token_changes(self):
        with ElasticCluster() as cluster:
            wait_until(lambda: len(cluster.taking("prefill")) == 1, "one worker to take prompts")
            self.assertEqual(cluster.changes(to="prefill", reason="nobody"), 1)
            self.ask_until(cluster, self.prompts, AT_ONCE_PROMPTS, to="prefill", reason="prompts")
            self.assertEqual(len(cluster.taking("decode")), 1, "one remains")
            self.ask_until(cluster, self.answers, AT_ONCE_ANSWERS, to="decode", reason="places")
            self.assertEqual(len(cluster.taking("prefill")), 1, "one remains")
            self.ask_until(cluster, self.prompts, AT_ONCE_PROMPTS, to="prefill", reason="prompts")
            self.assertGreater(cluster.router.metrics().sum("baton_pd_decision_total", decision="split"), 0)
            cluster.assert_nothing_held()

    def test_a_worker_that_dies_in_mid_change_takes_nothing_along(self):
        with ElasticCluster() as cluster:
            wait_until(lambda: len(cluster.taking("prefill")) == 1, "one worker to take prompts")
            self.ask_until(cluster, self.prompts, AT_ONCE_PROMPTS, to="prefill", reason="prompts")
            before = cluster.changes(to="decode")
            done = []
            thread = threading.Thread(target=lambda: done.extend(
                generate(cluster.router.grpc, self.answers, concurrency=AT_ONCE_ANSWERS)))
            thread.start()
            # Both workers of decode have answers then, one of them since a moment ago.
            wait_until(lambda: cluster.changes(to="decode") > before, "a role to change")
            only, = cluster.taking("prefill")
            dying = next(worker for worker in cluster.taking("decode") if worker is not only)
            dying.kill()
            thread.join()
            self.assertEqual(tokens(done), {key: self.expected[key] for key in tokens(done)})
            self.assertEqual(len(done), len(self.answers))
            wait_until(lambda: cluster.taking("decode") and cluster.taking("prefill"), "each role to be taken")
            self.ask(cluster, self.prompts, AT_ONCE_PROMPTS)
            cluster.assert_nothing_held()


if __name__ == "__main__":
    unittest.main()
