"""--routing: whatever workers are chosen by, tokens are the same; and routers that never spoke to each other agree on
who holds a prompt, because workers tell all of them."""

import unittest

from cluster import Cluster, generate, wait_until

STORY = "Once upon a time a fox and a mouse went down to the river to look for a boat and a friend. " * 6


def story(number, request):
    return {"request_id": request, "prompt": f"Story {number}. " + STORY, "temperature": 0.9, "seed": 5 + number,
            "max_tokens": 16, "eos": "mask"}


class Routing(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(decode=2, prefill=1, eos_log=False)
        cls.cluster.__enter__()
        cls.others = []

    @classmethod
    def tearDownClass(cls):
        for router in cls.others:
            router.kill()
        cls.cluster.__exit__(None, None, None)

    def router(self, name, routing, split):
        cluster = self.cluster
        kept, cluster.router_flags = cluster.router_flags, ["--routing", routing]
        prefill, cluster.prefill = cluster.prefill, cluster.prefill if split else []
        try:
            router = cluster.spawn_router(name)
        finally:
            cluster.router_flags, cluster.prefill = kept, prefill
        self.others.append(router)
        router.wait_ready()
        cluster.wait_routable(router)
        return router

    def test_tokens_are_the_same_whatever_workers_are_chosen_by(self):
        made = [story(number % 4, f"r{number}") for number in range(8)]
        expected = [answer["token_ids"] for answer in self.cluster.generate(made, concurrency=4)]
        self.assertEqual(expected[:4], expected[4:], "equal requests have equal answers")
        self.assertGreater(len({str(tokens) for tokens in expected}), 1)
        for routing in ("prefix", "remaining", "score"):
            for split in (True, False):
                with self.subTest(routing=routing, split=split):
                    router = self.router(f"{routing}-{split}", routing, split)
                    answers = generate(router.grpc, made, concurrency=4)
                    self.assertEqual([answer["token_ids"] for answer in answers], expected)
                    metrics = router.metrics()
                    self.assertGreaterEqual(
                        metrics.sum("baton_router_picks_total", policy=routing, outcome="picked"), len(made))

    def test_a_router_goes_where_another_one_sent_the_prompt(self):
        first = self.router("first", "score", split=False)
        second = self.router("second", "score", split=False)
        for number in range(10, 16):
            with self.subTest(number=number):
                known = second.metrics().sum("baton_router_known_cached_blocks")
                answer, = generate(first.grpc, [story(number, f"a{number}")])
                holder = answer["workers"]["decode"]
                # One new prompt is eight blocks or more.
                wait_until(lambda: second.metrics().sum("baton_router_known_cached_blocks") > known + 6,
                           "the second router to hear of the prompt")
                again, = generate(second.grpc, [story(number, f"b{number}")])
                self.assertEqual(again["workers"]["decode"], holder)
                self.assertGreater(again["usage"]["cached_tokens"], 60)
        metrics = second.metrics()
        self.assertEqual(metrics.sum("baton_router_cached_share_count"), 6)
        self.assertGreater(metrics.sum("baton_router_cached_share_sum"), 4)


if __name__ == "__main__":
    unittest.main()
