"""The EOS log and the ignore policies, seen from outside."""

import json
import math
import pathlib
import signal
import subprocess
import time
import unittest

from cluster import BIN, PATIENCE_S, Cluster, wait_until

KEYS = ["request_id", "timestamp", "step", "current_token_id", "eos_token_id", "eos_logprob", "eos_prob",
        "is_finished", "finish_reason", "prompt_length", "output_length", "total_length",
        "eos_prob_sampling", "eos_rank", "entropy", "top1_prob", "eos_policy", "natural_end_step",
        "attempt", "index"]
PROMPTS = ["Tell me a story about a fox.", "List 4 fruits.", "Count from 3 to 9.",
           "Write a JSON object for a person."]


class EosTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()
        cls.cluster.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__(None, None, None)

    def test_one_row_per_token(self):
        requests = [{"request_id": f"log-{i}", "messages": [{"role": "user", "content": text}],
                     "temperature": 0.8, "seed": i, "max_tokens": 300}
                    for i, text in enumerate(PROMPTS)]
        started = time.time()
        answers = self.cluster.generate(requests, "--chat", "--eos-steps", concurrency=4)
        for answer in answers:
            rows = self.cluster.finished_rows(answer["request_id"])
            n = len(answer["token_ids"])
            self.assertEqual([row["step"] for row in rows], list(range(1, n + 1)))
            self.assertEqual([row["current_token_id"] for row in rows], answer["token_ids"])
            for row, step in zip(rows, answer["eos"]):
                self.assertEqual(list(row), KEYS)
                self.assertEqual(row["output_length"], row["step"])
                self.assertEqual(row["total_length"], row["prompt_length"] + row["output_length"])
                self.assertEqual(row["prompt_length"], answer["usage"]["prompt_tokens"])
                self.assertAlmostEqual(row["eos_prob"], math.exp(row["eos_logprob"]), places=7)
                self.assertAlmostEqual(row["eos_prob"], step["eos_prob"], places=6)
                self.assertTrue(started - 1 < row["timestamp"] < time.time() + 1)
                self.assertEqual(row["attempt"], 1)
            self.assertEqual([row["is_finished"] for row in rows], [False] * (n - 1) + [True])
            self.assertEqual(rows[-1]["finish_reason"], answer["finish_reason"])
            self.assertTrue(all(row["finish_reason"] is None for row in rows[:-1]))

    def test_an_end_by_eos_has_the_eos_token_in_its_last_row(self):
        answer = self.cluster.generate([{"request_id": "end", "temperature": 0, "messages": [
            {"role": "user", "content": "List 3 colors."}]}], "--chat", "--eos-steps")[0]
        self.assertEqual(answer["finish_reason"], "stop_eos")
        last = self.cluster.finished_rows("end")[-1]
        self.assertEqual(last["current_token_id"], last["eos_token_id"])
        self.assertEqual(last["eos_rank"], 1)
        self.assertEqual(last["eos_prob_sampling"], 1)

    def test_meta_and_requests(self):
        self.cluster.generate([{"request_id": "meta", "prompt": "Once", "max_tokens": 3}])
        self.cluster.finished_rows("meta")
        meta = json.loads((self.cluster.path / "eos.jsonl.meta.json").read_text())
        self.assertTrue(meta)
        def summary():
            path = self.cluster.path / "eos.jsonl.requests.jsonl"
            lines = path.read_text().splitlines() if path.exists() else []
            return [row for row in map(json.loads, lines) if row["request_id"] == "meta"]
        self.assertEqual(len(wait_until(summary, "the summary")), 1)

    def test_ignoring_eos_gives_exactly_max_tokens(self):
        natural = self.cluster.generate(
            [{"request_id": f"n{i}", "messages": [{"role": "user", "content": PROMPTS[i % 4]}],
              "seed": i, "temperature": 0.8, "max_tokens": 600} for i in range(24)],
            "--chat", concurrency=12)
        longest = max(len(answer["token_ids"]) for answer in natural)
        forced = {}
        for policy in ("mask", "continue"):
            forced[policy] = self.cluster.generate(
                [{"request_id": f"{policy}{i}", "seed": i, "temperature": 0.8, "eos": policy,
                  "max_tokens": 2 * longest,
                  "messages": [{"role": "user", "content": PROMPTS[i % 4]}]} for i in range(24)],
                "--chat", concurrency=12)
            for answer in forced[policy]:
                self.assertEqual(len(answer["token_ids"]), 2 * longest)
                self.assertEqual(answer["finish_reason"], "length")
        for honor, mask, keep in zip(natural, forced["mask"], forced["continue"]):
            if honor["finish_reason"] != "stop_eos":
                continue
            n = len(honor["token_ids"])
            self.assertEqual(mask["usage"]["natural_end_step"], n)
            self.assertEqual(keep["usage"]["natural_end_step"], n)
            self.assertEqual(mask["token_ids"][:n - 1], honor["token_ids"][:n - 1])
            self.assertNotEqual(mask["token_ids"][n - 1], honor["token_ids"][n - 1])
            self.assertEqual(keep["token_ids"][:n], honor["token_ids"])
        self.cluster.assert_nothing_held()

    def test_min_tokens_masks_the_stop_set(self):
        answer = self.cluster.generate(
            [{"request_id": "min", "temperature": 0, "min_tokens": 120, "max_tokens": 140,
              "messages": [{"role": "user", "content": "List 2 colors."}]}], "--chat", "--eos-steps")[0]
        self.assertGreaterEqual(len(answer["token_ids"]), 120)
        rows = self.cluster.finished_rows("min")
        self.assertTrue(all(row["eos_prob_sampling"] == 0 for row in rows[:119]))
        self.assertTrue(any(row["eos_prob"] > 0.5 for row in rows[:119]))


class EosFilesTest(unittest.TestCase):
    """The log in several files: a reader that follows it, a router that is killed, a sample."""

    REQUESTS = 60
    TOKENS = 100  # so all rows are 2.5 MB

    def load(self, cluster, name, **options):
        cluster.generate(
            [{"request_id": f"{name}-{i}", "prompt": "Once upon a time", "seed": i, "eos": "continue",
              "temperature": 1.2, "max_tokens": self.TOKENS, **options} for i in range(self.REQUESTS)],
            concurrency=30)

    @staticmethod
    def stats(cluster):
        result = subprocess.run([BIN / "baton", "eos", "stats", cluster.eos_log, "--json"],
                                capture_output=True, text=True, timeout=PATIENCE_S, check=True)
        return json.loads(result.stdout)

    @staticmethod
    def parts(cluster):
        return sorted(path.name for path in cluster.path.glob("eos.jsonl.[0-9]*")
                      if "requests" not in path.name and "meta" not in path.name)

    def test_a_reader_follows_over_rotations_and_a_killed_router(self):
        with Cluster(router_flags=["--eos-log-max-size", "1MiB"]) as cluster:
            shown = pathlib.Path(cluster.path / "shown")
            with open(shown, "wb") as out:
                # From the first row on, however late it begins to read.
                tail = subprocess.Popen(
                    [BIN / "baton", "eos", "tail", cluster.eos_log, "--follow", "--rows", "1000000"],
                    stdout=out, stderr=subprocess.STDOUT)
            self.addCleanup(tail.kill)
            self.load(cluster, "first", tag="story")
            cluster.router.kill()
            cluster.router = cluster.spawn_router().wait_ready()
            cluster.wait_routable(cluster.router)
            self.load(cluster, "second")
            second = self.REQUESTS * self.TOKENS
            wait_until(lambda: shown.read_text().count("\nsecond-") == second,
                       "all rows of the second load")
            wait_until(lambda: all(name.endswith(".zst") for name in self.parts(cluster)),
                       "compressed parts")
            self.assertGreaterEqual(len(self.parts(cluster)), 4)
            rows = self.stats(cluster)["rows"]
            wait_until(lambda: len(shown.read_text().splitlines()) == rows + 1, "all rows to be shown")
            tail.send_signal(signal.SIGINT)
            self.assertEqual(tail.wait(PATIENCE_S), 0)
            keys = [tuple(line.split()[:2]) for line in shown.read_text().splitlines()[1:]]
            self.assertEqual(len(set(keys)), rows)
            # A router that is killed takes the rows of its last moment along.
            self.assertGreater(rows, second)
            metrics = cluster.router.metrics()
            for step in ("rotate", "compress", "remove"):
                self.assertEqual(metrics.sum("baton_eos_log_upkeep_failures_total", step=step), 0)
            self.assertEqual(metrics.sum("baton_eos_log_dropped_total"), 0)

    def test_a_sample_has_all_of_some_requests(self):
        with Cluster(router_flags=["--eos-log-sample", "0.5"]) as cluster:
            self.load(cluster, "sampled", max_tokens=5)
            cluster.router.terminate()
            rows = cluster.eos_rows()
            requests = {row["request_id"] for row in rows}
            self.assertTrue(10 < len(requests) < 50, len(requests))
            self.assertEqual(len(rows), 5 * len(requests))
            summaries = pathlib.Path(f"{cluster.eos_log}.requests.jsonl").read_text().splitlines()
            self.assertEqual({json.loads(line)["request_id"] for line in summaries}, requests)
            meta = json.loads(pathlib.Path(f"{cluster.eos_log}.meta.json").read_text())
            self.assertEqual(meta["sample"], 0.5)


if __name__ == "__main__":
    unittest.main()
