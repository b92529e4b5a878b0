"""Intervals of means, on numbers worked out by hand."""

import math
import unittest

from baton_analysis import intervals


class IntervalsTest(unittest.TestCase):

    def test_one_value_has_none(self):
        self.assertEqual(intervals.half([5.0]), 0)

    def test_few_values_are_less_sure_than_many(self):
        # The deviation of the three is 1, that of the alternating ones is that of a coin.
        self.assertAlmostEqual(intervals.half([1, 2, 3]), 4.303 / math.sqrt(3))
        self.assertAlmostEqual(intervals.half([1, 3]), 12.706 * math.sqrt(2) / math.sqrt(2))
        many = [0, 1] * 200
        self.assertAlmostEqual(intervals.half(many), 1.96 * 0.5 / math.sqrt(400), delta=3e-4)

    def test_the_table_goes_over_into_the_limit(self):
        def t(number):
            values = [0.0] * (number - 1) + [1.0]
            deviation = math.sqrt((1 - 1 / number) / (number - 1))
            return intervals.half(values) * math.sqrt(number) / deviation

        widths = [t(number) for number in range(2, 60)]
        self.assertEqual(widths, sorted(widths, reverse=True))
        self.assertAlmostEqual(t(41), 2.021, delta=2e-3)


if __name__ == "__main__":
    unittest.main()
