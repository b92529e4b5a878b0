"""What training makes of signals that are there.

Needs what `scripts/eos setup` installs: runs with that Python where it is there, and where
scikit-learn or torch are missing tells so and ends with 77, which ctest calls skipped.
"""

import argparse
import os
import pathlib
import sys
import unittest

TRAINING = pathlib.Path(__file__).resolve().parents[3] / "build" / "eos_python"

try:
    import sklearn
    import torch
except ImportError as error:
    python = TRAINING / "bin" / "python"
    if python.exists() and pathlib.Path(sys.prefix).resolve() != TRAINING.resolve():
        os.execv(python, [str(python), "-B", *sys.argv])
    print(f"skipped: {error}; type: scripts/eos setup", file=sys.stderr)
    sys.exit(77)

import numpy as np

from dataset_test import DatasetCase
from baton_analysis.eos.statistics import auroc
from baton_analysis.predict import bins, file, kinds, networks, trees
from baton_analysis.predict.evaluators import Inputs, gru_states, tree_values
from baton_analysis.predict.frame import frame_of

OPTIONS = argparse.Namespace(epochs=15, trees=12, threads=1)


class ModelsTest(DatasetCase):

    def setUp(self):
        super().setUp()
        self.dataset = self.written(prompts=120, projections=True)
        frame = lambda *splits: frame_of(self.dataset, self.dataset.of(*splits), self.flags)
        self.train, self.valid, self.test = frame("train"), frame("validation"), frame("test")
        self.known, self.ends = self.test.ends.within(4)
        self.base = self.score(kinds.fit("survival", self.train, self.valid, 1, OPTIONS))

    def score(self, fitted):
        """AUROC of P(end <= 4); the entropy of the last sentence says most of it."""
        chances = bins.within(fitted.logits(self.test))[:, bins.horizon_column(4)]
        return auroc(chances[self.known], self.ends[self.known])

    def test_every_kind_learns_what_there_is(self):
        for kind in ("logistic", "boosted", "forest", "mlp", "gru", "lstm", "transformer",
                     "combination"):
            with self.subTest(kind):
                fitted = kinds.fit(kind, self.train, self.valid, 1, OPTIONS)
                self.assertGreater(self.score(fitted), max(0.9, self.base + 0.1))
                self.assertEqual(fitted.parts is None, kind in ("forest", "lstm", "transformer"))

    def test_projections_of_noise_teach_nothing(self):
        for kind in ("first-probe", "probe"):
            fitted = kinds.fit(kind, self.train, self.valid, 1, OPTIONS)
            self.assertLess(self.score(fitted), self.base + 0.1)
            self.assertTrue(any("probe[" in name for name in fitted.parts["features"]))

    def test_a_file_says_what_the_library_says(self):
        outcomes, table = networks.targets(self.train), self.train.select(trees.NAMES)
        column = bins.horizon_column(4)
        rows = np.flatnonzero(~np.isnan(outcomes[:, column]))
        model = trees.HistGradientBoostingClassifier(max_iter=5, random_state=0)
        model.fit(table[rows], outcomes[rows, column])
        found = sum(
            tree_values(trees._tree(stage[0].nodes),
                        self.test.select(trees.NAMES).astype(float))
            for stage in model._predictors) + model._baseline_prediction.ravel()[0]
        self.assertTrue(np.allclose(found, model.decision_function(self.test.select(trees.NAMES))))

    def test_a_recurrent_state_is_that_of_torch(self):
        torch.manual_seed(2)
        cell = torch.nn.GRU(3, 5, batch_first=True)
        x = torch.randn(1, 12, 3)
        model = {
            "hidden": 5, "input": ["a", "b", "c"], "mean": [0] * 3, "scale": [1] * 3,
            **{name: file.encoded(getattr(cell, parameter).detach().numpy(), "<f4")
               for name, parameter in (("w_ih", "weight_ih_l0"), ("w_hh", "weight_hh_l0"),
                                       ("b_ih", "bias_ih_l0"), ("b_hh", "bias_hh_l0"))}
        }  # yapf: disable
        columns = {name: x[0, :, place].double().numpy() for place, name in enumerate("abc")}
        found = gru_states(model, Inputs(columns, np.array([0, 12]), [""]))
        self.assertTrue(np.allclose(found, cell(x)[0][0].detach().numpy(), atol=1e-6))


if __name__ == "__main__":
    unittest.main()
