"""The figures, against plain ways to compute them."""

import unittest

import numpy as np

from baton_analysis.eos.statistics import auroc
from baton_analysis.predict import calibration, figures
from baton_analysis.predict.bins import sigmoid


class FiguresTest(unittest.TestCase):

    def setUp(self):
        rng = np.random.default_rng(5)
        self.prompts = np.repeat(np.arange(80), 25)
        self.rows = np.arange(len(self.prompts))
        self.happened = rng.random(len(self.rows)) < 0.2
        self.scores = np.clip(0.2 + 0.15 * self.happened + rng.normal(0, 0.1, len(self.rows)), 0, 1)
        self.drawings = figures.Drawings(self.prompts)

    def test_ranking(self):
        area, average = figures.ranking(self.drawings, self.rows, self.scores, self.happened)
        self.assertAlmostEqual(area.value, auroc(self.scores, self.happened))
        order = np.argsort(-self.scores)
        precision = np.cumsum(self.happened[order]) / np.arange(1, len(order) + 1)
        self.assertAlmostEqual(average.value, precision[self.happened[order]].mean(), delta=0.01)
        self.assertTrue(area.low < area.value < area.high < area.low + 0.1)

    def test_a_ranking_needs_both_outcomes(self):
        none = np.zeros(len(self.rows), dtype=bool)
        self.assertIsNone(figures.ranking(self.drawings, self.rows, self.scores, none)[0].value)

    def test_calibration_error_is_that_of_bins(self):
        chances = np.full(len(self.rows), 0.5)
        found = figures.calibration_error(self.drawings, self.rows, chances, self.happened)
        self.assertAlmostEqual(found.value, 0.5 - self.happened.mean())

    def test_intervals_are_those_of_prompts_not_of_rows(self):
        same = np.repeat(np.arange(80) % 2, 25).astype(float)  # all rows of a prompt alike
        wide = self.drawings.ratio(self.rows, same)
        self.assertAlmostEqual(wide.value, 0.5)
        self.assertAlmostEqual(wide.high - wide.low, 2 * 1.96 * 0.5 / np.sqrt(80), delta=0.05)

    def tau(self, predicted, actual, *weights):
        weights = weights or (np.ones(len(predicted)),)
        return figures.kendall_tau(np.array(predicted), np.array(actual), np.array(weights))

    def test_kendall_tau(self):
        found, pairs = self.tau([1, 2, 3], [10, 20, 30])
        self.assertAlmostEqual(found[0], 1)
        self.assertAlmostEqual(pairs[0], 3)
        self.assertAlmostEqual(self.tau([1, 2, 3], [3, 1, 2])[0][0], -1 / 3)
        self.assertAlmostEqual(self.tau([1, 1, 2], [1, 2, 3])[0][0], 2 / np.sqrt(2 * 3))
        self.assertEqual(self.tau([1, 1], [1, 2])[1][0], 0)

    def test_a_pair_counts_as_often_as_both_of_it_were_drawn(self):
        found, pairs = self.tau([1, 2, 3], [3, 1, 2], [1, 1, 1], [0, 2, 1], [3, 2, 1])
        # Of 2 and 3, which are in order, two pairs; with 1 six and three that are not.
        self.assertTrue(np.allclose(found, [-1 / 3, 1, (2 - 6 - 3) / 11]))
        self.assertTrue(np.allclose(pairs, [3, 2, 11]))

    def test_sets_of_concurrent_requests(self):
        rng = np.random.default_rng(2)
        actual = rng.random(len(self.rows))
        found = figures.concurrent_tau(self.drawings, self.rows, actual, actual)
        self.assertAlmostEqual(found.value, 1)
        found = figures.concurrent_tau(self.drawings, self.rows, rng.random(len(self.rows)), actual)
        self.assertAlmostEqual(found.value, 0, delta=0.05)
        few = figures.Drawings(np.zeros(len(self.rows), dtype=int))
        self.assertIsNone(figures.concurrent_tau(few, self.rows, actual, actual).value)

    def test_the_interval_of_tau_draws_prompts(self):
        """All rows of a prompt alike: it is as wide as where prompts are drawn one by one."""
        rng = np.random.default_rng(6)
        actual, noise = rng.random((2, 80))
        predicted = actual + noise
        found = figures.concurrent_tau(self.drawings, self.rows, predicted[self.prompts],
                                       actual[self.prompts])
        taus = []
        for _ in range(400):
            drawn = rng.integers(80, size=80)
            a, b = (np.sign(of[drawn][:, None] - of[drawn]) for of in (predicted, actual))
            taus.append((a * b).sum() / np.abs(b).sum())
        low, high = np.quantile(taus, (0.025, 0.975))
        self.assertAlmostEqual(found.value, np.mean(taus), delta=0.03)
        self.assertTrue(0.7 < (found.high - found.low) / (high - low) < 1.4)

    def test_lead_is_the_alarm_that_stays_on(self):
        starts = np.array([0, 4, 7, 9])
        alarm = np.array([1, 0, 1, 1, 1, 1, 1, 1, 0], dtype=bool)
        self.assertEqual(figures.lead_times(starts, alarm).tolist(), [2, 3, 0])
        self.assertEqual(figures.lead_times(starts, np.ones(9, dtype=bool)).tolist(), [4, 3, 2])


class CalibrationTest(unittest.TestCase):

    def test_a_curve_undoes_a_distortion(self):
        rng = np.random.default_rng(3)
        true = rng.normal(-2, 1.5, 40_000)
        seen = (rng.random(len(true)) < sigmoid(true)).astype(float)
        curve = calibration.curve(0.5 * true + 1, seen, 0.0)
        fixed = np.interp(0.5 * true + 1, curve["x"], curve["y"])
        before = figures.calibration_error(figures.Drawings(np.arange(len(true)) % 99),
                                           np.arange(len(true)), sigmoid(0.5 * true + 1), seen)
        after = figures.calibration_error(figures.Drawings(np.arange(len(true)) % 99),
                                          np.arange(len(true)), sigmoid(fixed), seen)
        self.assertGreater(before.value, 0.2)
        self.assertLess(after.value, 0.01)

    def test_curves_rise_and_keep_the_order_of_rows(self):
        rng = np.random.default_rng(4)
        for z, seen in ((rng.normal(size=500), rng.random(500) < 0.5), (np.zeros(50), np.ones(50)),
                        (np.arange(9.0), np.arange(9) % 2)):
            curve = calibration.curve(z, np.asarray(seen, dtype=float), 0.0)
            self.assertTrue((np.diff(curve["x"]) > 0).all() and (np.diff(curve["y"]) > 0).all())

    def test_a_bin_of_which_no_outcome_is_known_says_what_it_is_given(self):
        outcomes = np.array([[0.0, np.nan], [1.0, np.nan]])
        curves = calibration.fit(np.array([[-1.0, 7.0], [1.0, -7.0]]), outcomes,
                                 np.array([9.0, -2.5]))
        self.assertEqual(list(np.interp([-50, 0, 50], curves[1]["x"], curves[1]["y"])), [-2.5] * 3)
        self.assertNotIn(9.0, curves[0]["y"])


if __name__ == "__main__":
    unittest.main()
