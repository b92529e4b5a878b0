"""The arithmetic of scripts/eos_outside.py, on numbers that can be counted by hand."""

import pathlib
import sys
import unittest

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import eos_outside as outside


def ended(*lengths, cut=()):
    return ([{"output_length": n, "finish_reason": "stop_eos"} for n in lengths]
            + [{"output_length": n, "finish_reason": "length"} for n in cut])


class FiguresTest(unittest.TestCase):
    def test_auroc_counts_pairs_and_ties_half(self):
        chances = np.array([0.9, 0.5, 0.5, 0.1])
        happened = np.array([True, True, False, False])
        # Of the four pairs three are in order and one is a tie.
        self.assertAlmostEqual(outside.auroc(chances, happened, np.ones(4)), 3.5 / 4)
        self.assertAlmostEqual(outside.auroc(1 - chances, happened, np.ones(4)), 0.5 / 4)
        # A row of weight two is a row that stands there twice.
        self.assertAlmostEqual(outside.auroc(chances, happened, np.array([2.0, 1, 1, 1])), 5.5 / 6)
        self.assertTrue(np.isnan(outside.auroc(chances, np.full(4, True), np.ones(4))))

    def test_ece_is_the_mean_distance_by_bin(self):
        chances = np.array([0.05, 0.05, 0.95, 1.0])
        happened = np.array([False, True, True, True])
        # The first bin said 0.05 and saw a half; the last said 0.975 on average and saw all.
        self.assertAlmostEqual(outside.ece(chances, happened, np.ones(4)), (2 * 0.45 + 2 * 0.025) / 4)

    def test_survival_is_of_those_who_still_go_on(self):
        curve = outside.Survival(ended(2, 4, 4, 8))
        self.assertAlmostEqual(curve.within(0, 2), 0.25)
        self.assertAlmostEqual(curve.within(2, 1), 0)
        self.assertAlmostEqual(curve.within(2, 2), 2 / 3)
        self.assertAlmostEqual(curve.within(4, 5000), 1)
        self.assertEqual(curve.median(2), 2)

    def test_behind_the_longest_answer_the_next_step_is_the_median(self):
        curve = outside.Survival(ended(2, 4, 4, 8))
        self.assertEqual([curve.median(step) for step in (7, 8, 9, 500)], [1, 1, 1, 1])
        # Half of them never end: the limit is what is known.
        self.assertEqual(outside.Survival(ended(5, cut=(1024, 1024))).median(3), outside.LIMIT - 3)

    def test_tau_is_of_pairs_of_different_prompts(self):
        def tau(prompts, expected, remaining, weights=None):
            rows = {"prompt": np.array(prompts), "expected": np.array(expected), "remaining": np.array(remaining)}
            together = outside.Together(rows, np.random.default_rng(1), 60_000)
            weights = np.ones(len(prompts)) if weights is None else np.array(weights)
            return together.figures(rows, weights)["kendall_tau", None]

        self.assertAlmostEqual(tau([1, 2, 3], [5.0, 6.0, 7.0], [1, 2, 3]), 1)
        # Two of the three pairs are the wrong way round.
        self.assertAlmostEqual(tau([1, 2, 3], [1.0, 2.0, 3.0], [3, 1, 2]), -1 / 3, delta=0.02)
        self.assertAlmostEqual(tau([1, 2, 3], [1.0, 1.0, 2.0], [1, 2, 3]), 2 / np.sqrt(2 * 3), delta=0.02)
        # The rows of one prompt, which are the wrong way round, are no pair.
        self.assertAlmostEqual(tau([1, 1, 2], [1.0, 2.0, 3.0], [2, 1, 3]), 1)
        # A prompt that was drawn twice: two pairs in order with 3, with 1 two that are not, and one of 1 and 3.
        self.assertAlmostEqual(tau([1, 2, 3], [1.0, 2.0, 3.0], [3, 1, 2], [1.0, 2.0, 1.0]), (2 - 2 - 1) / 5, delta=0.02)
        self.assertTrue(np.isnan(tau([1, 2], [1.0, 1.0], [1, 2])))

    def test_an_answer_that_was_cut_off_is_at_risk_until_then_and_no_end(self):
        curve = outside.Survival(ended(2, 4, cut=(3, 3)))
        self.assertAlmostEqual(curve.within(0, 2), 0.25)
        self.assertAlmostEqual(curve.within(2, 1), 0)
        self.assertAlmostEqual(curve.within(2, 2), 1)


class RowsTest(unittest.TestCase):
    PROMPTS = [{"prompt_index": 3, "family": "story"}]

    def answer(self, steps, finish_reason="stop_eos"):
        within = {str(h): 0.5 for h in outside.HORIZONS}
        return {"request_id": "3-0", "usage": {"completion_tokens": 3}, "finish_reason": finish_reason,
                "predictions": [{"at_step": step, "expected_remaining": 1.5, "p50": 1, "within": within}
                                for step in steps]}

    def rows(self, answer):
        return outside.rows_of([answer], self.PROMPTS, {"story": outside.Survival(ended(3))})

    def test_what_remains_is_counted_behind_the_step(self):
        rows, families, cut, silent = self.rows(self.answer([1, 2]))
        self.assertEqual(list(rows["remaining"]), [2, 1])
        self.assertEqual((list(families), cut, silent), (["story", "story"], 0, 0))

    def test_a_prediction_behind_the_last_token_is_an_error(self):
        with self.assertRaisesRegex(outside.DatasetError, "3 tokens has a prediction at step 3"):
            self.rows(self.answer([3]))

    def test_missing_predictions_and_cut_answers_are_counted(self):
        self.assertEqual(self.rows(self.answer([2]))[3], 1)
        self.assertEqual(self.rows(self.answer([1], "length"))[2], 1)


if __name__ == "__main__":
    unittest.main()
