"""`baton eos collect` and `scripts/eos dataset` on the demo model, seen from outside."""

import hashlib
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import unittest

from cluster import BIN, PATIENCE_S, ROOT, Cluster, wait_until

PROMPTS = [{"messages": [{"role": "user", "content": "List 3 fruits."}], "family": "list"},
           {"messages": [{"role": "user", "content": "What does a fox eat?"}], "family": "answer"},
           {"prompt": "Once upon a time", "family": "story", "max_tokens": 20}]


def read_jsonl(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


class EosCollectTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(flags=["--predictor", "off"])  # it would bring a probe along
        cls.cluster.__enter__()
        cls.prompts = cls.cluster.path / "prompts"  # not a log, so without its ending
        cls.prompts.write_text("".join(json.dumps(prompt) + "\n" for prompt in PROMPTS))

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__(None, None, None)

    def collect(self, out, *options):
        return [str(BIN / "baton"), "eos", "collect", "--server", self.cluster.router.grpc, "--prompts",
                str(self.prompts), "--out", str(out), *options]

    def run_collect(self, out, *options):
        return subprocess.run(self.collect(out, *options), capture_output=True, text=True,
                              timeout=10 * PATIENCE_S, check=False)

    def test_rows_are_those_of_the_log(self):
        out = self.cluster.path / "rows"
        options = ["--seeds", "2", "--temperatures", "0,0.8", "--concurrency", "6"]
        result = self.run_collect(out, *options)
        self.assertEqual(result.returncode, 0, result.stderr)
        valid = subprocess.run([BIN / "baton", "eos", "validate", out / "rows.jsonl"], capture_output=True,
                               text=True, check=False)
        self.assertEqual(valid.returncode, 0, valid.stdout)
        requests = read_jsonl(out / "requests.jsonl")
        self.assertEqual(len(requests), len(PROMPTS) * 2 * 2)
        rows = read_jsonl(out / "rows.jsonl")
        for request in requests:
            mine = [row for row in rows if row["request_id"] == request["request_id"]]
            self.assertEqual(mine, self.cluster.finished_rows(request["request_id"]))
            self.assertEqual([row["current_token_id"] for row in mine], request["token_ids"])
        self.check_manifest(out, requests, rows)
        self.assertIn("0 asked now", self.run_collect(out, *options).stdout)

    def check_manifest(self, out, requests, rows):
        manifest = json.loads((out / "manifest.json").read_text())
        self.assertTrue(manifest["complete"])
        self.assertEqual(manifest["counts"]["requests"], len(requests))
        self.assertEqual(manifest["counts"]["rows"], len(rows))
        self.assertRegex(manifest["model"]["fingerprint"], "^[0-9a-f]+$")
        self.assertEqual([stop["id"] for stop in manifest["model"]["stop_ids"]], [1, 2])
        self.assertEqual(manifest["families"]["story"]["ended"], {"length": 4})
        for name, file in manifest["files"].items():
            content = (out / name).read_bytes()
            self.assertEqual(file, {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()})

    def test_an_interrupted_run_goes_on(self):
        out = self.cluster.path / "interrupted"
        # Other seeds than those above: the log is one.
        options = ["--first-seed", "1001", "--seeds", "150", "--temperatures", "0.8", "--concurrency", "2"]
        process = subprocess.Popen(self.collect(out, *options), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        done = out / "requests.jsonl"
        wait_until(lambda: done.exists() and done.read_text().count("\n") > 5, "some answers")
        process.send_signal(signal.SIGKILL)
        process.communicate()
        before = done.read_text().count("\n")
        self.assertLess(before, 450)
        result = self.run_collect(out, *options[:-1], "32")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(f"{450 - before} asked now", result.stdout)
        requests = read_jsonl(done)
        self.assertEqual(len({request["request_id"] for request in requests}), 450)
        self.assertEqual([(row["request_id"], row["step"]) for row in read_jsonl(out / "rows.jsonl")],
                         [(request["request_id"], step) for request in requests
                          for step in range(1, request["output_length"] + 1)])

    def test_hidden_needs_a_probe(self):
        result = self.run_collect(self.cluster.path / "hidden", "--hidden")
        self.assertEqual(result.returncode, 1)
        self.assertIn("found 0 probe products at step 1", result.stderr)


class EosDatasetTest(unittest.TestCase):
    def test_a_small_one_is_whole(self):
        with tempfile.TemporaryDirectory(prefix="baton-dataset-") as folder:
            out = pathlib.Path(folder) / "set"
            result = subprocess.run(
                [ROOT / "scripts/eos", "dataset", "--out", out, "--scale", "0.02", "--serve-flag=--threads=1",
                 "--serve-flag=--kv-cache-memory=64MiB"],
                capture_output=True, text=True, timeout=10 * PATIENCE_S, check=False,
                env=dict(os.environ, BATON_BIN=str(BIN), BATON_PYTHON="/usr/bin/python3"))
            self.assertEqual(result.returncode, 0, result.stderr)
            self.check(out)

    def check(self, out):
        split = read_jsonl(out / "split.jsonl")
        self.assertEqual({p["split"] for p in split}, {"train", "validation", "test", "held_out"})
        self.assertEqual({p["family"] for p in split if p["split"] == "held_out"}, {"list"})
        self.assertEqual(len({(p["family"], p["prompt"]) for p in split}), len(split))
        requests = {arm: read_jsonl(out / arm / "requests.jsonl")
                    for arm in ("greedy", "sampled", "top_p", "censored")}
        self.assertEqual({arm: len(found) for arm, found in requests.items()},
                         {"greedy": len(split), "sampled": 9 * len(split), "top_p": 3 * len(split),
                          "censored": 3 * len(split)})
        for request in requests["sampled"]:
            self.assertEqual(split[request["prompt_index"]]["family"], request["family"])
        self.assertTrue(any(r["finish_reason"] == "length" for r in requests["censored"]))
        endless = [r for r in requests["sampled"] if r["family"] == "endless" and r["temperature"] == 0.8]
        self.assertTrue(any(r["output_length"] == 1024 and r["finish_reason"] == "length" for r in endless))
        self.check_ceiling(out, split, requests["sampled"])

    def check_ceiling(self, out, split, sampled):
        lengths = {request["request_id"]: request["output_length"] for request in sampled}
        ceiling = read_jsonl(out / "ceiling.jsonl")
        self.assertTrue(ceiling)
        for prefix in ceiling:
            self.assertEqual(split[prefix["prompt_index"]]["split"], "test")
            self.assertEqual(prefix["at_step"] + prefix["remaining"], lengths[prefix["request_id"]])
            self.assertEqual(len(prefix["samples"]), 32)
            self.assertGreaterEqual(min(prefix["samples"]), 1)
        self.assertIn("## Arms", (out / "summary.md").read_text())


if __name__ == "__main__":
    unittest.main()
