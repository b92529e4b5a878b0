"""Features of rows, against the plain way to compute them."""

import math
import unittest

import numpy as np

from synthetic_eos import LogCase, rows, vllm_rows
from baton_analysis.eos.features import NAMES, features, log_odds, repeated_grams, running, slopes
from baton_analysis.eos.log import LogReader

COLUMN = {key: column for column, key in enumerate(NAMES)}


class FeaturesTest(LogCase):

    def of(self, request):
        sequence, = LogReader([self.written(request)]).sequences()
        return sequence, features(sequence, np.arange(len(sequence.rows)))

    def test_windows_speak_of_the_last_rows_and_no_later_ones(self):
        rng = np.random.default_rng(7)
        probs = rng.uniform(1e-6, 0.9, 50)
        _, table = self.of(rows("r", list(probs)))
        logs = np.log(probs)
        for at in (0, 5, 7, 8, 31, 40, 49):
            for window, size in (("8", 8), ("32", 32), ("all", 50)):
                part = logs[max(0, at + 1 - size):at + 1]
                for kind, value in (("mean", part.mean()), ("max", part.max()), ("std",
                                                                                 part.std())):
                    self.assertAlmostEqual(table[at, COLUMN[f"{kind}_{window}"]], value, places=9)
            if at >= 2:
                part = logs[max(0, at - 31):at + 1]
                self.assertAlmostEqual(table[at, COLUMN["slope"]],
                                       np.polyfit(np.arange(len(part)), part, 1)[0])
        self.assertEqual(list(table[:3, COLUMN["length"]]), [1, 2, 3])

    def test_rows_without_a_value_are_stepped_over(self):
        _, table = self.of(vllm_rows("r", [None, 0.25, None, 0.5], "length"))
        self.assertTrue(math.isnan(table[0, COLUMN["mean_8"]]))
        self.assertAlmostEqual(table[3, COLUMN["mean_8"]], (math.log(0.25) + math.log(0.5)) / 2)
        self.assertAlmostEqual(table[2, COLUMN["max_all"]], math.log(0.25))
        self.assertTrue(np.isnan(table[:, COLUMN["entropy"]]).all())

    def test_log_odds_are_exact_where_the_probability_is_tiny(self):
        self.assertAlmostEqual(log_odds(np.array([-60.0]))[0], -60.0)
        self.assertAlmostEqual(log_odds(np.log(np.array([0.5])))[0], 0)
        self.assertAlmostEqual(log_odds(np.log(np.array([0.75])))[0], math.log(3))
        self.assertTrue(math.isfinite(log_odds(np.array([0.0]))[0]))

    def test_a_steady_rise_has_its_slope(self):
        self.assertTrue(
            np.allclose(slopes(np.array([[1.0, 3, 5, 7], [5, 4, 3, 2], [np.nan, 1, np.nan, 5]])),
                        [2, -1, np.nan], equal_nan=True))

    def test_running_figures_keep_their_digits(self):
        x = np.full(1000, -1e6) + np.tile([0.0, 1e-3], 500)
        self.assertAlmostEqual(running(x)[2][-1], 5e-4)

    def test_repeated_4_grams(self):
        self.assertTrue(
            np.array_equal(repeated_grams(np.array([1.0, 2, 3, 4, 1, 2, 3, 4, 1])),
                           [np.nan, np.nan, np.nan, 0, 0, 0, 0, 1, 1], equal_nan=True))
        self.assertTrue(np.isnan(repeated_grams(np.array([1.0, 1]))).all())


if __name__ == "__main__":
    unittest.main()
