"""The features of whole answers, against the plain words of `reference`."""

import unittest

import numpy as np

from make_vectors import random_rows
from baton_analysis.predict import features
from baton_analysis.predict.reference import Request, Row, features_of

REQUEST = Request(12, 0.7, 0.9)


def plain(lo=-5.0, boundary=False, token=1, prob=0.01):
    return Row(lo, prob, 1.0, 0.5, 3, token, boundary, False)


class FeaturesTest(unittest.TestCase):

    def table(self, rows):
        return features.columns(features.Signals.of_rows(rows), REQUEST)

    def test_they_are_those_of_the_reference(self):
        for seed, count in ((1, 1), (2, 3), (3, 4), (4, 9), (5, 70), (6, 160)):
            rows = random_rows(np.random.default_rng(seed), max(count, 6), True)[:count]
            table = self.table(rows)
            for t in range(1, count + 1):
                expected = features_of(rows[:t], REQUEST)
                self.assertEqual(set(expected), set(table))
                for name, value in expected.items():
                    self.assertAlmostEqual(table[name][t - 1], value, places=8,
                                           msg=f"seed {seed}, row {t}, {name}")

    def test_the_order_of_names_is_whole(self):
        self.assertEqual(set(self.table([plain()])), set(features.NAMES))

    def test_later_rows_change_nothing(self):
        rows = random_rows(np.random.default_rng(8), 90, False)
        whole, part = self.table(rows), self.table(rows[:60])
        for name in features.NAMES:
            self.assertTrue(np.array_equal(whole[name][:60], part[name]), name)

    def test_figures_that_are_missing_or_certain(self):
        table = self.table([
            Row(None, None, None, None, None, 1, False, False),
            Row(0.0, 1.0, 0.0, 1.0, 1, 2, False, False),
        ])
        self.assertAlmostEqual(table["lo"][0], -30)
        self.assertAlmostEqual(table["lo"][1], -np.log(-np.expm1(-1e-7)), places=6)
        self.assertAlmostEqual(table["so"][0], np.log(1e-13))
        self.assertEqual(table["log_rank"][0], 0)
        self.assertTrue(all(np.isfinite(column).all() for column in table.values()))

    def test_the_row_after_a_boundary_counts_from_itself_on(self):
        table = self.table([
            plain(-1, boundary=True),
            plain(-2),
            plain(-3, boundary=True),
            plain(-4, boundary=True),
            plain(-5)
        ])
        lo = table["lo"]
        self.assertEqual(list(table["after_lo"]), [-30, lo[1], lo[1], lo[3], lo[4]])
        self.assertEqual(list(table["after_lo_prev"]), [-30, -30, -30, lo[1], lo[3]])
        self.assertEqual(list(table["after_rise"]), [0, 0, 0, 0, lo[4] - lo[1]])
        self.assertEqual(list(table["since_boundary"]), [0, 1, 0, 0, 1])
        self.assertEqual(list(table["boundary_lo"]), [lo[0], lo[0], lo[2], lo[3], lo[3]])

    def test_a_repeat_is_one_of_the_64_four_grams_before(self):
        near = list(range(4)) + list(range(100, 160)) + list(range(4))
        far = list(range(4)) + list(range(100, 161)) + list(range(4))
        for tokens, share in ((near, 1 / 64), (far, 0.0)):
            table = self.table([plain(token=token) for token in tokens])
            self.assertAlmostEqual(table["repeat4"][-1], share)
        self.assertEqual(self.table([plain()] * 90)["repeat4"][-1], 1)


if __name__ == "__main__":
    unittest.main()
