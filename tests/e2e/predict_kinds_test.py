"""Every kind of predictor file, served by the shipped binaries: what they foretell is what the training's own
evaluators make of the same rows, and no token is another one for it."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

from cluster import BIN, DEMO_MODEL, PATIENCE_S, ROOT, Cluster

sys.path[:0] = [str(ROOT / "analysis"), str(ROOT / "tests/analysis/predict")]
import make_vectors  # noqa: E402
from baton_analysis.predict import bins, boundaries, evaluators, features, file  # noqa: E402
from baton_analysis.predict.reference import Request, Row  # noqa: E402

KINDS = ("survival", "logistic", "trees", "mlp", "gru", "sum")
HORIZONS = (1, 4, 16, 64, 256)
TOLERANCE = 1e-5
TOP_P = 0.95


def requests():
    """Stories and lists, greedy and drawn, long enough that every window of the features is full and moves on."""
    asked = ["Tell me a story about a river.", "List 5 fruits.", "Tell me a short story about a king.",
             "Tell me a story about a mouse."]
    return [{"request_id": f"k{i}", "messages": [{"role": "user", "content": text}], "temperature": [0.8, 0, 0.8, 0][i],
             "top_p": TOP_P, "seed": 5 + i, "max_tokens": 140, "eos_probe": True} for i, text in enumerate(asked)]


def make_probe(folder):
    path = pathlib.Path(folder) / "probe.json"
    subprocess.run([BIN / "baton", "eos", "make-probe", DEMO_MODEL, "--dims", str(make_vectors.PROBE_WIDTH), "--out",
                    path], check=True, capture_output=True, timeout=PATIENCE_S)
    return json.loads(path.read_text())


def table_of(answer, flags, temperature):
    """The features of all rows of an answer."""
    rows = [Row(step["eos_logprob"], step["eos_prob_sampling"], step["entropy"], step["top1_prob"], step["eos_rank"],
                token, bool(flags[token]), bool(flags[token] & boundaries.LINE), tuple(step.get("probe", ())))
            for step, token in zip(answer["eos"], answer["token_ids"])]
    request = Request(answer["usage"]["prompt_tokens"], temperature, TOP_P)
    return features.columns(features.Signals.of_rows(rows), request)


class PredictKindsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="baton-kinds-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.probe = make_probe(folder.name)
        cls.flags = boundaries.flags_by_id(str(DEMO_MODEL))
        cls.off = cls.answers("--predictor", "off", "--probe", cls.folder / "probe.json")
        tables = [cls.table(answer) for answer in cls.off]
        cls.columns = {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}

    @classmethod
    def answers(cls, *flags):
        with Cluster(flags=["--kv-cache-tokens", "4096", *flags]) as service:
            return service.generate(requests(), "--chat", "--predict", concurrency=4)

    @classmethod
    def table(cls, answer):
        asked = {request["request_id"]: request for request in requests()}[answer["request_id"]]
        return table_of(answer, cls.flags, asked["temperature"])

    def predictor(self, kind):
        """A file of random weights, scaled as the training scales, so that chances are neither 0 nor 1 throughout."""
        rng = np.random.default_rng(7)
        model, names, _, _, with_probe, calibrate = make_vectors.cases(rng)[kind]
        raw = np.column_stack([self.columns[name] for name in names]) if names else np.zeros((1, 0))
        plain = kind == "trees"
        probe = {"layer": None, "dims": self.probe["dims"], "hidden": self.probe["hidden"],
                 "directions": self.probe["payload"],
                 "biases": file.encoded(np.zeros(self.probe["dims"]), "<f4")} if with_probe else None
        body = file.body_of(fingerprint=self.probe["model_fingerprint"], name=kind, made_by="a test", model=model,
                            tail_mean=1500, features=names,
                            mean=np.zeros(len(names)) if plain else raw.mean(axis=0),
                            scale=np.ones(len(names)) if plain else np.maximum(raw.std(axis=0), 0.5), probe=probe,
                            calibration=make_vectors.calibration(rng) if calibrate else None)
        path = self.folder / f"{kind}.json"
        file.write(str(path), body)
        return path, body

    def assert_near(self, found, expected, what):
        self.assertLessEqual(abs(found - expected), TOLERANCE * max(1, abs(expected)), f"{what}: {found}, {expected}")

    def assert_foretold(self, answer, body):
        """Every prediction of the answer is what the training's evaluators say behind the same rows."""
        table = self.table(answer)
        steps = len(answer["token_ids"])
        expected = evaluators.estimates(body, evaluators.Inputs(table, np.array([0, steps]), [""]))
        columns = [body["bins"].index(horizon) for horizon in HORIZONS]
        ended = answer["finish_reason"] == "stop_eos"
        said = answer["predictions"]
        self.assertIn([each["at_step"] for each in said],
                      [list(range(1, steps))] if ended else [list(range(1, steps)), list(range(1, steps + 1))])
        for each in said:
            at = each["at_step"] - 1
            for horizon, column in zip(HORIZONS, columns):
                self.assert_near(each["within"][str(horizon)], expected.within[at, column], f"within {horizon} at {at}")
            self.assert_near(each["expected_remaining"], expected.expected_remaining[at], f"expected_remaining at {at}")
            # Whole tokens: chances that differ by a rounding may lie on both sides of a step.
            for key, share in (("p50", .5), ("p90", .9)):
                least, most = (bins.quantile(expected.within[at:at + 1], body["tail_mean"], share + off)[0]
                               for off in (-TOLERANCE, TOLERANCE))
                self.assertTrue(least <= each[key] <= most, f"{key} at {at}: {each[key]}, {least} to {most}")
        return [list(each["within"].values()) for each in said]

    def test_every_kind_foretells_what_the_training_does_and_changes_no_token(self):
        for kind in KINDS:
            with self.subTest(kind=kind):
                path, body = self.predictor(kind)
                on = self.answers("--predictor", path)
                chances = []
                for answer, without in zip(on, self.off):
                    for key in ("token_ids", "text", "finish_reason", "stop_cause"):
                        self.assertEqual(answer[key], without[key])
                    self.assertEqual(without["predictions"], [])
                    chances += self.assert_foretold(answer, body)
                # Else two sides that say the same of everything would do.
                self.assertGreater(np.std(chances, axis=0).max(), 0.01)


if __name__ == "__main__":
    unittest.main()
