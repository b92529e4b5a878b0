"""Intervals, differences, the score and the rule, on numbers worked out by hand; and costs."""

import unittest

from baton_analysis.scheduling import costs, figures
from baton_analysis.scheduling.simulate import capacity


def latencies(mean, p99):
    return {"e2e_ms.mean": mean, "e2e_ms.p99": p99}


class FiguresTest(unittest.TestCase):

    def test_an_interval_is_students_t_of_the_mean(self):
        mean, half = figures.interval([1.0, 2.0, 3.0, 4.0, 5.0])
        self.assertEqual(mean, 3.0)
        self.assertAlmostEqual(half, 2.776 * (2.5 / 5)**0.5)
        self.assertEqual(figures.interval([7.0]), (7.0, 0.0))

    def test_differences_are_taken_seed_by_seed(self):
        # Every seed is a tenth better, however far seeds are apart.
        mean, half = figures.relative([9.0, 90.0, 900.0], [10.0, 100.0, 1000.0])
        self.assertAlmostEqual(mean, -0.1)
        self.assertAlmostEqual(half, 0)
        with self.assertRaises(ValueError):
            figures.relative([1.0], [1.0, 2.0])

    def test_figures_are_found_by_their_place_and_what_is_missing_is_zero(self):
        run = {"e2e_ms": {"mean": 1.234567, "p99": 2, "p50": 1, "max": 3}, "ttft_ms": None, "tpot_ms": None,
               "preemptions": 4}  # yapf: disable
        for name in ("completed", "refused", "output_throughput", "request_goodput", "goodput_share", "kv_use_p50",
                     "kv_use_p95", "wasted_share"):  # yapf: disable
            run[name] = 0
        gathered = figures.gather([run, run])
        self.assertEqual(gathered["e2e_ms.mean"], [1.2346, 1.2346])
        self.assertEqual(gathered["ttft_ms.p99"], [0, 0])
        self.assertEqual(gathered["preemptions"], [4, 4])

    def test_a_score_does_not_buy_the_mean_with_the_tail(self):
        base = figures.score(latencies([10, 10], [100, 100]))
        self.assertGreater(figures.score(latencies([9, 9], [150, 150])), base)
        self.assertLess(figures.score(latencies([9, 9], [100, 100])), base)

    def test_the_rule_wants_the_mean_below_and_p99_not_above_each_base(self):
        base = latencies([100, 102, 104], [1000, 1020, 1040])
        self.assertTrue(figures.verdict(latencies([90, 91, 92], [1010, 1010, 1050]), {"fcfs": base})["holds"])
        worse_tail = figures.verdict(latencies([90, 91, 92], [1500, 1510, 1520]), {"fcfs": base})
        self.assertFalse(worse_tail["holds"])
        self.assertTrue(worse_tail["against"]["fcfs"]["mean_below"])
        self.assertFalse(worse_tail["against"]["fcfs"]["p99_not_above"])
        by_chance = figures.verdict(latencies([95, 90, 110], [900, 900, 900]), {"fcfs": base})
        self.assertFalse(by_chance["holds"])
        self.assertFalse(by_chance["against"]["fcfs"]["mean_below"])
        equal = figures.verdict(base, {"fcfs": base})
        self.assertFalse(equal["holds"])
        better = latencies([80, 80, 80], [900, 900, 900])
        self.assertFalse(
            figures.verdict(latencies([90, 91, 92], [1010, 1010, 1050]), {"fcfs": base, "past-future": better})["holds"])

    def test_capacity_is_of_the_time_when_everybody_was_busy(self):
        self.assertAlmostEqual(capacity({"e2e_ms": {"count": 1000, "p90": 30000.0}}), 30.0)


class CostsTest(unittest.TestCase):

    def test_an_8b_model_has_the_weights_and_kv_that_its_card_says(self):
        self.assertEqual(costs.LLAMA_8B.kv_bytes_per_token, 131072)
        self.assertAlmostEqual(costs.LLAMA_8B.weights / 8.03e9, 1, delta=0.001)

    def test_a_step_reads_the_weights_and_a_token_multiplies_with_them(self):
        us = costs.reckon(costs.LLAMA_8B, costs.H100)["us"]
        # 15 GB at 2.68 TB/s and the launch; 15 GFLOP at 593 TFLOP/s.
        self.assertAlmostEqual(us["step"], 5801, delta=10)
        self.assertAlmostEqual(us["row"], 25.3, delta=0.1)
        self.assertEqual(us["row"], us["prompt_token"])
        self.assertAlmostEqual(us["kv_token"], 0.0489, delta=0.0001)
        self.assertAlmostEqual(us["attention_product"], 0.001325, delta=1e-6)

    def test_pools_have_what_weights_leave(self):
        self.assertEqual(costs.pool_tokens(costs.LLAMA_8B, costs.H100), 411529)
        self.assertLess(costs.pool_tokens(costs.LLAMA_8B, costs.L4), 30000)


if __name__ == "__main__":
    unittest.main()
