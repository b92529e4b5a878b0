"""What the evaluators say of small cases worked out by hand; and the vectors of the service."""

import json
import math
import unittest

import numpy as np

import make_vectors
from baton_analysis.predict import bins, evaluators, file, survival
from baton_analysis.predict.bins import Ends


def logit(p):
    return math.log(p) - math.log1p(-p)


def inputs(count, classes=("x",), **columns):
    columns = {name: np.array(values, dtype=float) for name, values in columns.items()}
    columns.setdefault("step", np.arange(1.0, count + 1))
    return evaluators.Inputs(columns, np.array([0, count]), list(classes))


def body(model, **more):
    return file.body_of(fingerprint="f", name="n", made_by="m", model=model, tail_mean=2000, **more)


class BinsTest(unittest.TestCase):

    def ends(self, after, natural, room=100_000):
        after = np.array(after)
        return Ends(after, np.full(len(after), natural), np.full(len(after), room))

    def test_outcomes_of_a_natural_end(self):
        table = bins.outcomes(self.ends([1, 3, 2000], True))
        self.assertEqual(table[0, 0], 1)
        self.assertTrue(np.isnan(table[0, 1:]).all())
        self.assertEqual(list(table[1, :3]), [0, 0, 1])
        self.assertTrue(np.isnan(table[1, 3:]).all())
        self.assertEqual(list(table[2]), [0] * bins.COUNT)

    def test_outcomes_of_an_answer_that_was_cut_off(self):
        table = bins.outcomes(self.ends([0, 1, 2, 3, 4], False))
        self.assertTrue(np.isnan(table[0]).all())
        # The third bin has the tokens 3 and 4: to see half of them is enough.
        self.assertEqual([np.nansum(~np.isnan(row)) for row in table], [0, 1, 2, 3, 3])
        self.assertEqual(np.nansum(table), 0)

    def test_a_bin_beyond_the_limit_has_no_outcome_however_the_answer_ended(self):
        for natural in (True, False):
            table = bins.outcomes(self.ends([7], natural, room=7))
            self.assertEqual(list(table[0, :3]), [0, 0, 0])
            self.assertTrue(np.isnan(table[0, 3:]).all())

    def test_what_is_known_of_a_horizon(self):
        known, happened = self.ends([4, 5], True).within(4)
        self.assertEqual((list(known), list(happened)), ([True, True], [True, False]))
        known, happened = self.ends([1, 2, 4], False).within(4)
        self.assertEqual((list(known), list(happened)), ([False, True, True], [False] * 3))
        self.assertFalse(self.ends([2], True, room=3).within(4)[0].any())

    def test_the_mean_beyond_the_last_bin_is_that_of_a_constant_rate(self):
        rng = np.random.default_rng(2)
        wanted = 1024 + rng.geometric(1 / 500, 20_000)
        room = np.full(len(wanted), 1024 + 300)
        found = bins.tail_mean(Ends(np.minimum(wanted, room), wanted <= room, room))
        self.assertAlmostEqual(found, 1024 + 500, delta=15)
        self.assertEqual(bins.tail_mean(self.ends([2000], False)), bins.TAIL_MEAN_DEFAULT)

    def test_mean_and_quantiles_of_a_known_mixture(self):
        # A half at r = 1, the other half evenly over 5..8.
        chances = np.array([[.5, .5, .5, 1, 1, 1, 1, 1, 1, 1]])
        self.assertAlmostEqual(bins.expected(chances, 2000)[0], .5 * 1 + .5 * 6.5)
        for q, x in ((.25, 1), (.5, 1), (.51, 5), (.75, 6), (.76, 7), (.9, 8)):
            self.assertEqual(bins.quantile(chances, 2000, q)[0], x, q)
        never = np.zeros((1, bins.COUNT))
        self.assertAlmostEqual(bins.expected(never, 2000)[0], 2000)
        self.assertEqual(bins.quantile(never, 2000, .5)[0], math.ceil((1024 + 2975) / 2))

    def test_a_quantile_holds_as_many_ends_as_it_says(self):
        rng = np.random.default_rng(4)
        for hazards in ([.97] + [.5] * 9, [.05, .1, .2, .999] + [.999] * 6, [1e-3] * 6 + [.9] * 4):
            chances = bins.within(np.array([[logit(hazard) for hazard in hazards]]))
            at = np.minimum(np.searchsorted(chances[0], rng.random(50_000)), bins.COUNT - 1)
            remaining = rng.integers(bins.LOWER[at], bins.UPPER[at] + 1)
            for q in (.1, .5, .9):
                x = bins.quantile(chances, 2000, q)[0]
                self.assertGreaterEqual((remaining <= x).mean(), q - .01)
                self.assertLess((remaining <= x - 1).mean(), q + .01)


class EvaluatorsTest(unittest.TestCase):

    def test_survival_is_the_product_over_the_steps(self):
        model = {
            "kind": "survival",
            "classes": {
                "x": {
                    "steps": [2, 10],
                    "hazard": [.1, .2]
                },
                "all": {
                    "steps": [1],
                    "hazard": [.5]
                }
            },
            "default": "all"
        }
        found = evaluators.estimates(body(model), inputs(3)).within
        self.assertAlmostEqual(found[0, 0], .1)  # step 2
        self.assertAlmostEqual(found[0, 2], 1 - .9 * .8**3)
        self.assertAlmostEqual(found[2, 4], 1 - .8**16)  # beyond the last step: its hazard
        other = evaluators.estimates(body(model), inputs(1, ("y",))).within
        self.assertAlmostEqual(other[0, 1], .75)

    def test_logistic(self):
        model = {
            "kind": "logistic",
            "weights": file.encoded(np.arange(20), "<f8"),
            "bias": [.5] * bins.COUNT
        }
        given = body(model, features=["a", "b"], mean=[1, 2], scale=[2, 4])
        found = evaluators.logits(given, inputs(1, a=[3], b=[10]))
        self.assertTrue(np.allclose(found, [[2 * k + 2 * (2 * k + 1) + .5 for k in range(10)]]))

    def test_a_tree_goes_left_at_its_threshold(self):
        tree = {
            "f": file.encoded([0, -1, 1, -1, -1], "<i2"),
            "t": file.encoded([2, 10, 5, 20, 30], "<f8"),
            "l": file.encoded([1, -1, 3, -1, -1], "<i2"),
            "r": file.encoded([2, -1, 4, -1, -1], "<i2")
        }
        x = np.array([[2, 9], [2.1, 5], [3, 6.]])
        self.assertEqual(list(evaluators.tree_values(tree, x)), [10, 20, 30])

    def test_a_recurrent_state_of_one_unit(self):
        one = lambda *values: file.encoded(values, "<f4")
        model = {
            "kind": "gru", "hidden": 1, "input": ["a"], "mean": [0], "scale": [1],
            "w_ih": one(.5, -.5, 1), "w_hh": one(.25, .75, -1), "b_ih": one(.125, 0, .25),
            "b_hh": one(0, .5, -.5), "head": {"layers": [{
                "weights": file.encoded(np.ones((bins.COUNT, 1)), "<f4"),
                "bias": file.encoded(np.zeros(bins.COUNT), "<f4"), "activation": "none"}]}
        }  # yapf: disable
        sigmoid = lambda v: 1 / (1 + math.exp(-v))
        h, expected = 0.0, []
        for a in (1.0, -2.0):
            r = sigmoid(.5 * a + .125 + .25 * h)
            z = sigmoid(-.5 * a + .75 * h + .5)
            new = math.tanh(a + .25 + r * (-h - .5))
            h = (1 - z) * new + z * h
            expected.append(h)
        found = evaluators.logits(body(model), inputs(2, a=[1, -2]))
        self.assertTrue(np.allclose(found[:, 0], expected))

    def test_answers_do_not_mix(self):
        rng = np.random.default_rng(3)
        model = make_vectors.gru_model(rng, 0)
        columns = {name: rng.normal(size=9) for name in make_vectors.GRU_INPUT}
        together = evaluators.Inputs(columns, np.array([0, 2, 7, 9]), ["", "", ""])
        states = evaluators.gru_states(model, together)
        for start, end in ((0, 2), (2, 7), (7, 9)):
            alone = evaluators.Inputs({
                k: v[start:end] for k, v in columns.items()
            }, np.array([0, end - start]), [""])
            self.assertTrue(np.allclose(evaluators.gru_states(model, alone), states[start:end]))

    def test_parts_add_up_and_calibration_comes_last(self):
        half = {"kind": "logistic", "weights": "", "bias": [.75] * bins.COUNT}
        model = {"kind": "sum", "parts": [half, half]}
        curve = [{"x": [1, 2], "y": [10, 20]}] * bins.COUNT
        found = evaluators.logits(body(model, calibration=curve), inputs(1))
        self.assertTrue(np.allclose(found, 15))
        low = evaluators.calibrated(np.full((1, bins.COUNT), -5.0), curve)
        self.assertTrue(np.allclose(low, 10))

    def test_the_vectors_of_the_service_are_those_of_these_evaluators(self):
        texts = make_vectors.texts()
        self.assertEqual({f"{name}.json" for name in texts},
                         {path.name for path in make_vectors.FOLDER.iterdir()})
        for name, text in texts.items():
            committed = json.loads((make_vectors.FOLDER / f"{name}.json").read_text())
            made = json.loads(text)
            self.assertEqual(committed["rows"], made["rows"], name)
            for key in ("estimates", "features"):
                for old, new in zip(committed[key], made[key], strict=True):
                    self.assertEqual(old.keys(), new.keys())
                    for figure, value in old.items():
                        self.assertTrue(np.allclose(value, new[figure], rtol=1e-8, atol=1e-8),
                                        (name, figure))


class SurvivalTest(unittest.TestCase):

    def test_cut_answers_were_at_risk_up_to_their_cut(self):
        lengths = np.array([2] * 400 + [3] * 400 + [2] * 200)
        natural = np.array([True] * 800 + [False] * 200)
        found = survival.hazards(lengths, natural)
        self.assertEqual(found["steps"], [1, 2, 3])
        for hazard, expected in zip(found["hazard"], (0, .4, 1)):
            self.assertAlmostEqual(hazard, expected, delta=.002)

    def test_long_answers_share_their_hazards(self):
        rng = np.random.default_rng(1)
        lengths = np.ceil(rng.exponential(1 / -math.log(.99), 20000)).astype(int)
        entry = survival.hazards(lengths, np.full(len(lengths), True))
        self.assertLess(len(entry["steps"]), 140)
        steps = np.array([1, 50, 200])
        chances = bins.within(survival.class_logits(entry, steps))
        self.assertTrue(np.allclose(chances[:, 4], 1 - .99**16, rtol=.1))


if __name__ == "__main__":
    unittest.main()
