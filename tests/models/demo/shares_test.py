"""Shares with intervals over prompts."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "models" / "demo"))
import shares


class ShareTest(unittest.TestCase):
    def test_answers_to_one_prompt_count_as_one(self):
        prompts = [[True], [False], [True], [True]] * 25
        once = shares.share(prompts)
        self.assertEqual(once[0], 0.75)
        self.assertAlmostEqual(once[1], 0.665, delta=0.02)
        self.assertAlmostEqual(once[2], 0.835, delta=0.02)
        self.assertEqual(shares.share([answers * 8 for answers in prompts]), once)
        # Were they independent, the interval would be narrower.
        low, high = shares.share([answers for answers in prompts for _ in range(8)])[1:]
        self.assertGreater(low, once[1])
        self.assertLess(high, once[2])

    def test_all_right_is_not_certain(self):
        mean, low, high = shares.share([[True, True]] * 40)
        self.assertEqual((mean, high), (1, 1))
        self.assertAlmostEqual(low**40, 0.025)
        mean, low, high = shares.share([[False]] * 40)
        self.assertEqual((mean, low), (0, 0))
        self.assertAlmostEqual((1 - high)**40, 0.025)


if __name__ == "__main__":
    unittest.main()
