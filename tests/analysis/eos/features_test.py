"""Features of rows, against the plain way to compute them."""

import math
import unittest

import numpy as np

from synthetic_eos import LogCase, rows, vllm_rows, without
from baton_analysis.eos.features import (NAMES, features, log_odds, repeated_grams, running,
                                         sentence_ends, slopes)
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

    def test_the_gap_is_that_to_the_likeliest_token(self):
        _, table = self.of(rows("r", [0.25, 0.001]))
        self.assertAlmostEqual(table[0, COLUMN["gap"]], math.log(0.5 / 0.25))
        self.assertAlmostEqual(table[1, COLUMN["gap"]], math.log(0.5 / 0.001))
        _, table = self.of(without(["top1_prob"], rows("r", [0.25, 0.001])))
        self.assertTrue(np.isnan(table[:, COLUMN["gap"]]).all())

    def test_what_sentence_ends_had_is_known_from_the_row_behind_them_on(self):
        rng = np.random.default_rng(3)
        x, ends = rng.normal(size=60), rng.random(60) < 0.3
        x[7] = np.nan
        for ends in (ends, np.zeros(60, bool), np.ones(60, bool)):
            found = sentence_ends(x, ends)
            for row in range(60):
                at = [place for place in range(row + 1) if ends[place]]
                behind = [place + 1 for place in at if place + 1 <= row]
                none = math.nan
                known = [x[place] for place in behind if not math.isnan(x[place])]
                expected = {
                    "behind_end": x[behind[-1]] if behind else none,
                    "at_end": x[at[-1]] if at else none,
                    "rise": x[behind[-1]] - x[behind[-3]] if len(behind) >= 3 else none,
                    "highest": max(known, default=none),
                    "since_end": row - at[-1] if at else none,
                }
                for key, value in expected.items():
                    np.testing.assert_equal(found[key][row], value, f"{key} of row {row}")

    def test_where_sentence_ends_are_not_known_their_features_are_missing(self):
        sequence, table = self.of(rows("r", [0.1, 0.2, 0.3]))
        self.assertTrue(np.isnan(table[:, COLUMN["behind_end"]]).all())
        table = features(sequence, np.arange(3), np.array([True, False, False]))
        self.assertAlmostEqual(table[1, COLUMN["behind_end"]], math.log(0.2))
        self.assertEqual(list(table[:, COLUMN["since_end"]]), [0, 1, 2])

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
