"""Samples keep to their bounds, and every item has the same chance."""

import unittest

import numpy as np

from baton_analysis.eos.samples import Reservoir, RowSample


class SamplesTest(unittest.TestCase):

    def test_what_fits_is_kept_whole(self):
        reservoir = Reservoir(5, "seed")
        for item in range(5):
            reservoir.offer(lambda item=item: item)
        self.assertEqual(reservoir.items, [0, 1, 2, 3, 4])

    def test_a_reservoir_takes_from_everywhere(self):
        reservoir = Reservoir(1000, "seed")
        for item in range(20000):
            reservoir.offer(lambda item=item: item)
        self.assertEqual((len(reservoir.items), len(set(reservoir.items))), (1000, 1000))
        self.assertAlmostEqual(np.mean(reservoir.items) / 20000, 0.5, delta=0.05)

    def test_rows_are_thinned_evenly_and_bounded(self):
        sample = RowSample(1000)
        for start in range(0, 20000, 100):
            at, keys = sample.choose(100)
            sample.add(keys, (start + at)[:, None])
            self.assertLessEqual(sample._held, 2100)
        kept = sample.rows()[:, 0]
        self.assertEqual((len(kept), sample.offered), (1000, 20000))
        self.assertAlmostEqual(kept.mean() / 20000, 0.5, delta=0.05)

    def test_few_rows_are_all_there(self):
        sample = RowSample(1000)
        at, keys = sample.choose(3)
        sample.add(keys, at[:, None])
        self.assertEqual(list(sample.rows()[:, 0]), [0, 1, 2])
        self.assertIsNone(RowSample(1000).rows())


if __name__ == "__main__":
    unittest.main()
