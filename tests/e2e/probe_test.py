"""Probes, seen from outside: products on the API, the same however a request ran, and what workers refuse."""

import base64
import hashlib
import json
import pathlib
import struct
import subprocess
import tempfile
import unittest

from cluster import BIN, DEMO_MODEL, PATIENCE_S, Cluster

SUBJECTS = ["fox", "river", "mouse", "boat", "king", "lamp"]
DIMS = 16


def make_probe(folder, name, *options):
    path = pathlib.Path(folder) / name
    subprocess.run([BIN / "baton", "eos", "make-probe", DEMO_MODEL, "--dims", str(DIMS), "--out", path, *options],
                   check=True, capture_output=True, timeout=PATIENCE_S)
    return path


def as_linear(path, fingerprint=None):
    """The same directions as a trained probe would have them, with biases of 0."""
    probe = json.loads(path.read_text())
    payload = base64.b64decode(probe["payload"]) + struct.pack(f"<{DIMS}f", *[0.0] * DIMS)
    probe |= {"kind": "linear", "payload": base64.b64encode(payload).decode(),
              "sha256": hashlib.sha256(payload).hexdigest(),
              "model_fingerprint": fingerprint or probe["model_fingerprint"]}
    changed = path.with_name(f"linear-{path.name}")
    changed.write_text(json.dumps(probe))
    return changed


def predictor_with(path, fingerprint):
    """A predictor file of the model `fingerprint` that brings the directions of the probe at `path` along."""
    probe = json.loads(path.read_text())
    text = json.dumps({
        "model_fingerprint": fingerprint or probe["model_fingerprint"], "name": "n", "made_by": "test",
        "bins": [1, 2, 4, 8, 16, 32, 64, 128, 256, 1024], "tail_mean": 2048,
        "probe": {"layer": probe.get("layer"), "dims": DIMS, "hidden": probe["hidden"],
                  "directions": probe["payload"],
                  "biases": base64.b64encode(struct.pack(f"<{DIMS}f", *[0.0] * DIMS)).decode()},
        "features": [], "mean": [], "scale": [], "calibration": None,
        "model": {"kind": "survival", "classes": {"a": {"steps": [9], "hazard": [0.1]}}, "default": "a"}})
    made = path.with_name(f"predictor-{fingerprint or 'own'}.json")
    made.write_text('{"format":"baton-eos-predictor","version":1,"sha256":"%s","body":%s}'
                    % (hashlib.sha256(text.encode()).hexdigest(), text))
    return made


def requests():
    return [{"request_id": f"p{i}", "messages": [{"role": "user", "content": f"Tell me a story about a {subject}."}],
             "temperature": 0.9 if i % 2 else 0, "seed": 3 + i, "max_tokens": 40, "eos_probe": True}
            for i, subject in enumerate(SUBJECTS)]


def products(answer):
    return [row.get("probe") for row in answer["eos"]]


class ProbeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="baton-probe-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.normed = make_probe(cls.folder.name, "normed.json", "--seed", "4")
        cls.middle = make_probe(cls.folder.name, "middle.json", "--seed", "4", "--after-layer", "1")

    def worker_exit(self, *flags):
        """The exit code and what is said of a decode worker that does not start."""
        result = subprocess.run(
            [BIN / "baton-decode", DEMO_MODEL, "--port", "0", "--admin-port", "0", "--threads", "1",
             "--kv-cache-memory", "16MiB", *map(str, flags)],
            capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        return result.returncode, result.stderr

    def test_products_are_the_same_alone_and_handed_over_in_a_batch(self):
        for probe in (self.normed, self.middle):
            with Cluster(prefill=0, flags=["--probe", probe]) as service:
                alone = service.generate(requests(), "--chat")
                self.assertNotIn("probe", service.generate(
                    [{**requests()[0], "eos_probe": False, "eos_steps": True}], "--chat")[0]["eos"][0])
            for answer in alone:
                self.assertEqual(len(answer["eos"]), len(answer["token_ids"]))
                self.assertTrue(all(len(row) == DIMS for row in products(answer)))
            self.assertGreater(len({tuple(row) for answer in alone for row in products(answer)}), 60)
            with Cluster(flags=["--probe", probe]) as service:
                split = service.generate(requests(), "--chat", concurrency=len(SUBJECTS))
                service.assert_nothing_held()
            for one, other in zip(alone, split):
                self.assertTrue(other["workers"]["prefill"])
                self.assertEqual(other["token_ids"], one["token_ids"])
                self.assertEqual(products(other), products(one))

    def test_rows_of_a_worker_without_a_probe_have_no_products(self):
        none = ["--predictor", "off"]  # the model's own brings directions along
        with Cluster(flags=none, decode_flags=["--probe", self.normed]) as service:
            answer = service.generate(requests()[:1], "--chat")[0]
        self.assertNotIn("probe", answer["eos"][0])
        self.assertTrue(all(len(row) == DIMS for row in products(answer)[1:]))
        with Cluster(flags=none) as service:
            answer = service.generate(requests()[:1], "--chat")[0]
        self.assertEqual(set(products(answer)), {None})

    def test_a_predictors_own_probe_is_told_of_unless_it_is_of_another_model(self):
        def answer(*flags):
            with Cluster(flags=flags) as service:
                return service.generate(requests()[:1], "--chat", "--predict")[0]
        own = ["--predictor", predictor_with(self.normed, None)]
        foreign = ["--predictor", predictor_with(self.normed, "0" * 32)]
        alone = answer(*own)
        self.assertTrue(all(len(row) == DIMS for row in products(alone)))
        self.assertTrue(alone["predictions"])
        beside = answer(*own, "--probe", self.normed)
        self.assertEqual(products(beside), products(alone))
        self.assertTrue(beside["predictions"], "it is the same probe")
        self.assertEqual(answer(*own, "--probe", self.middle)["predictions"], [])
        left_alone = answer(*foreign)
        self.assertEqual(set(products(left_alone)), {None})
        self.assertEqual(left_alone["predictions"], [])
        self.assertEqual(products(answer(*foreign, "--probe", self.normed)), products(alone))

    def test_a_file_that_is_no_probe_ends_the_start(self):
        code, said = self.worker_exit("--probe", pathlib.Path(self.folder.name) / "none.json")
        self.assertEqual(code, 2)
        self.assertIn("cannot use --probe", said)
        damaged = pathlib.Path(self.folder.name) / "damaged.json"
        damaged.write_text(self.normed.read_text().replace('"sha256": "', '"sha256": "0'))
        code, said = self.worker_exit("--probe", damaged)
        self.assertEqual(code, 2)
        self.assertIn("sha256", said)

    def test_a_probe_that_does_not_fit_the_model_ends_the_start(self):
        far = json.loads(self.middle.read_text()) | {"layer": 99}
        path = pathlib.Path(self.folder.name) / "far.json"
        path.write_text(json.dumps(far))
        code, said = self.worker_exit("--probe", path)
        self.assertEqual(code, 3)
        self.assertIn("layer 99", said)

    def test_a_trained_probe_of_another_model_is_refused_and_a_random_one_taken(self):
        foreign = "0" * 32
        code, said = self.worker_exit("--probe", as_linear(self.normed, foreign))
        self.assertEqual(code, 3)
        self.assertIn(foreign, said)
        random = json.loads(self.normed.read_text()) | {"model_fingerprint": foreign}
        path = pathlib.Path(self.folder.name) / "foreign.json"
        path.write_text(json.dumps(random))
        with Cluster(prefill=0, flags=["--probe", path]) as service:
            self.assertIn(foreign, service.decode[0].log.read_text())
            strange = service.generate(requests()[:1], "--chat")[0]
        with Cluster(prefill=0, flags=["--probe", as_linear(self.normed)]) as service:
            trained = service.generate(requests()[:1], "--chat")[0]
        self.assertEqual(products(strange), products(trained))


if __name__ == "__main__":
    unittest.main()
