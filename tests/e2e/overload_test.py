"""Three hundred clients on 64 places: first come, first served, and nobody is sent away.

What is asked of one router, and of three that share four workers, is read in the routers' own
summaries of requests; `overload_bench.py` prints the same figures for longer runs.
"""

import argparse
import unittest

from overload_bench import measure

PLACES = 64


class OverloadTest(unittest.TestCase):
    def check(self, **options):
        shape = {"prefill": 0, "input_tokens": 32, "output_tokens": 32, **options}
        figures = measure(argparse.Namespace(places=PLACES // shape["decode"], **shape))
        for one in figures:
            self.assertEqual(len(one.ttft), shape["requests"])
            self.assertEqual((one.failed, one.extra_attempts), (0, 0))
            self.assertEqual((one.in_vain, one.complaints), ({}, []))
            # Where clients are several times the places, a first token waits for a place above all.
            self.assertGreater(sum(one.queue), 0.8 * sum(one.ttft))
            self.assertLessEqual(sum(one.queue), sum(one.ttft))
        return figures

    def test_one_router_one_worker(self):
        one, = self.check(routers=1, decode=1, concurrency=300, requests=900)
        # Whoever has a place while an earlier one is tokenized goes first: as many as there are
        # places, and at most a quarter more that workers lend as their line.
        self.assertLessEqual(max(one.overtaken(one.queue)), PLACES * 5 // 4)

    def test_three_routers_share_four_workers(self):
        # How often workers of unequal speed let one overtake another is no affair of the queue; its
        # order is held by the simulation of routers.
        self.check(routers=3, decode=4, concurrency=100, requests=400)


if __name__ == "__main__":
    unittest.main()
