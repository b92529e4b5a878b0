"""Survival, AUROC and calibration of cases that can be worked out by hand."""

import unittest

import numpy as np

from baton_analysis.eos.statistics import (Ends, Reliability, auroc, ends_within, equal_bins,
                                           kaplan_meier, known_ends, survival_quantile, wilson)


def ends(natural, censored=()):
    made = Ends()
    for length in natural:
        made.add(length, True)
    for length in censored:
        made.add(length, False)
    return made


def curve(made):
    survival = kaplan_meier(made)
    return survival.at(np.arange(survival.lengths[-1] + 1))


class KnownEndsTest(unittest.TestCase):

    HAZARD = 0.03

    def seen(self, horizon, limits, cut_hazard=0.0):
        """The share of the known rows that end within `horizon`, of answers whose hazard is HAZARD
        at each step and which something else cuts with `cut_hazard`; and the share of known rows."""
        rng = np.random.default_rng(11)
        wanted = rng.geometric(self.HAZARD, len(limits))
        cut = rng.geometric(cut_hazard, len(limits)) if cut_hazard else limits
        length = np.minimum(wanted, np.minimum(cut, limits))
        answer = np.repeat(np.arange(len(limits)), length - 1)
        step = np.concatenate([np.arange(1, n) for n in length])
        known, ended = known_ends(length[answer] - step, (wanted == length)[answer],
                                  limits[answer] - step, horizon)
        return ended[known].mean(), known.mean()

    def test_a_limit_makes_ends_no_more_frequent(self):
        limits = np.exp(np.random.default_rng(1).uniform(np.log(4), np.log(256), 20_000)).astype(int)
        for horizon in (1, 4, 16, 64):
            share, _ = self.seen(horizon, limits)
            self.assertAlmostEqual(share, 1 - (1 - self.HAZARD)**horizon, delta=0.02)

    def test_other_cuts_move_the_share_of_ends_little(self):
        limits = np.full(20_000, 2000)
        for horizon in (4, 16, 64):
            share, known = self.seen(horizon, limits, cut_hazard=self.HAZARD)
            self.assertAlmostEqual(share, 1 - (1 - self.HAZARD)**horizon, delta=0.03)
            self.assertLess(known, 1)

    def test_of_a_later_part_only_those_count_that_come_so_far(self):
        after = np.array([4, 5, 8, 9, 5, 6, 7])
        natural = np.array([True] * 4 + [False] * 3)
        known, ended = known_ends(after, natural, np.full(7, 8), last=8, first=5)
        self.assertEqual(list(known), [False, True, True, True, False, True, True])
        self.assertEqual(list(ended), [False, True, True, False, False, False, False])
        self.assertFalse(known_ends(after, natural, np.full(7, 7), last=8, first=5)[0].any())


class SurvivalTest(unittest.TestCase):

    def test_without_censoring_it_is_the_share_that_is_longer(self):
        self.assertTrue(np.allclose(curve(ends([1, 2, 2, 4])), [1, 0.75, 0.25, 0.25, 0]))

    def test_a_censored_answer_is_at_risk_up_to_its_cut_and_not_after(self):
        # At 2 one of 5 ends; then one is cut off, so at 4 one of 3 ends.
        survival = curve(ends([2, 4, 5, 6], censored=[3]))
        self.assertTrue(np.allclose(survival, [1, 1, 0.8, 0.8, 0.8 * 2 / 3, 0.8 / 3, 0]))

    def test_a_cut_at_the_step_of_an_end_is_still_at_risk_there(self):
        self.assertTrue(np.allclose(curve(ends([2], censored=[2])), [1, 1, 0.5]))

    def test_cut_off_answers_never_let_survival_reach_0(self):
        survival = kaplan_meier(ends([1], censored=[3]))
        self.assertTrue(np.allclose(survival.at(np.arange(4)), [1, 0.5, 0.5, 0.5]))
        self.assertEqual(survival_quantile(survival, 0.5), 1)
        self.assertIsNone(survival_quantile(survival, 0.9))

    def test_ends_within_is_conditional_on_the_length_so_far(self):
        survival = kaplan_meier(ends([1, 2, 2, 4]))
        self.assertTrue(
            np.allclose(ends_within(survival, np.array([0, 1, 2, 4, 9]), 1),
                        [0.25, 2 / 3, 0, 1, 1]))
        self.assertTrue(np.allclose(ends_within(survival, np.array([1]), 16), [1]))

    def test_a_very_long_answer_takes_no_more_memory_than_a_short_one(self):
        survival = kaplan_meier(ends([1], censored=[2**31 - 1]))
        self.assertEqual(list(survival.lengths), [0, 1, 2**31 - 1])
        self.assertEqual(list(survival.at(np.array([0, 1, 10**6, 2**31]))), [1, 0.5, 0.5, 0.5])


class AurocTest(unittest.TestCase):

    def of(self, positives, negatives):
        scores = np.array([*positives, *negatives], dtype=float)
        return auroc(scores, np.arange(len(scores)) < len(positives))

    def test_by_hand(self):
        self.assertEqual(self.of([3, 4], [1, 2]), 1)
        self.assertEqual(self.of([1, 2], [3, 4]), 0)
        self.assertEqual(self.of([2, 4], [1, 3]), 0.75)

    def test_ties_count_one_half(self):
        self.assertEqual(self.of([1, 1], [1, 1, 1]), 0.5)
        # Pairs: 2>1, 2=2, 2=2, 3>1, 3>2, 3>2: 4 wins and 2 ties of 6.
        self.assertAlmostEqual(self.of([2, 3], [1, 2, 2]), 5 / 6)

    def test_one_class_alone_has_none(self):
        self.assertIsNone(self.of([1, 2], []))
        self.assertIsNone(self.of([], [1]))


class ReliabilityTest(unittest.TestCase):

    def test_expected_calibration_error_by_hand(self):
        reliability = Reliability(equal_bins())
        # Bin of 0.1: announced 0.1, seen 0.25; bin of 0.9: announced 0.9, seen 0.5.
        reliability.add(np.array([0.1] * 4 + [0.9] * 2), np.array([1, 0, 0, 0, 1, 0]))
        self.assertAlmostEqual(reliability.expected_calibration_error(), (4 * 0.15 + 2 * 0.4) / 6)

    def test_what_comes_true_has_no_error(self):
        reliability = Reliability(equal_bins())
        reliability.add(np.array([0.5, 0.5, 0, 1]), np.array([1, 0, 0, 1]))
        self.assertAlmostEqual(reliability.expected_calibration_error(), 0)

    def test_missing_probabilities_are_left_out(self):
        reliability = Reliability(equal_bins())
        self.assertIsNone(reliability.expected_calibration_error())
        reliability.add(np.array([np.nan, 1.0]), np.array([1, 1]))
        self.assertEqual(reliability.count.sum(), 1)
        announced, share, *_ = reliability.points()
        self.assertEqual((list(announced), list(share)), ([1], [1]))

    def test_the_interval_after_wilson(self):
        low, high = wilson(np.array([0.0, 0.5]), np.array([10, 10]))
        self.assertTrue(np.allclose(low, [0, 0.2366], atol=1e-4))
        self.assertTrue(np.allclose(high, [0.2775, 0.7634], atol=1e-4))


if __name__ == "__main__":
    unittest.main()
