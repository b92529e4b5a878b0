"""Predictions of ends, seen from outside: they come in order, and change nothing."""

import json
import pathlib
import shutil
import tempfile
import threading
import unittest

from client import Client
from cluster import DEMO_MODEL, Cluster, wait_until

HORIZONS = ["1", "4", "16", "64", "256"]
WORDS = ["river", "mouse", "boat", "king", "garden", "lamp", "bird", "stone"]


def requests(count, tag="r", **options):
    """Stories and lists; most end by themselves."""
    made = []
    for i in range(count):
        text = (f"Tell me a story about a {WORDS[i % 8]}." if i % 3 == 0
                else f"List {2 + i % 7} fruits.")
        made.append({"request_id": f"{tag}{i}", "messages": [{"role": "user", "content": text}],
                     "temperature": 0 if i % 4 == 0 else 0.8, "seed": 11 + i,
                     "max_tokens": [300, 60, 12][i % 3], **options})
    return made


def logs_of(cluster, request_ids):
    """The rows of requests that are over, without what load decides: when, and at which attempt."""
    def rows():
        found = {request_id: [] for request_id in request_ids}
        for row in cluster.eos_rows():
            if row["request_id"] in found:
                found[row["request_id"]].append({**row, "timestamp": 0, "attempt": 0})
        return found if all(each and each[-1]["is_finished"] for each in found.values()) else None
    return wait_until(rows, "the last row of every request")


class PredictTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="baton-e2e-model-")
        cls.addClassCleanup(folder.cleanup)
        # The same model, so that the same tokens are drawn, with nobody who was taught its ends before.
        cls.untaught = pathlib.Path(folder.name) / "model"
        shutil.copytree(DEMO_MODEL, cls.untaught)
        (cls.untaught / "eos_predictor.json").unlink()

    def seen(self, count, model, prefill, *flags):
        """Answers and log rows of `count` requests on a cluster that was taught by others."""
        with Cluster(model=model, prefill=prefill, flags=["--max-num-seqs", "16", "--kv-cache-tokens", "512",
                                                          *flags]) as cluster:
            cluster.generate(requests(30, "teach"), "--chat", concurrency=8)
            made = requests(count)
            answers = cluster.generate(made, "--chat", "--predict", concurrency=16)
            rows = logs_of(cluster, [request["request_id"] for request in made])
            figures = cluster.decode[0].metrics()
            return answers, rows, figures

    def test_on_or_off_tokens_ends_and_rows_are_the_same(self):
        # The file that comes with the model, and lengths that are learnt.
        for prefill, model, kind in ((0, DEMO_MODEL, "sum"), (1, self.untaught, "learnt")):
            with self.subTest(prefill=prefill):
                on, on_rows, on_figures = self.seen(250, model, prefill)
                off, off_rows, _ = self.seen(250, model, prefill, "--predictor", "off")
                self.assertEqual(on_figures.sum("baton_predictor_info", kind=kind), 1)
                self.assertGreater(on_figures.sum("baton_num_preemptions_total"), 0)
                for a, b in zip(on, off):
                    for key in ("token_ids", "text", "finish_reason", "stop_cause"):
                        self.assertEqual(a[key], b[key])
                self.assertEqual(on_rows, off_rows)
                self.assertTrue(any(answer["predictions"] for answer in on))
                self.assertFalse(any(answer["predictions"] for answer in off))

    def test_on_or_off_replayed_tokens_are_the_same(self):
        made = [{"request_id": f"r{i}", "messages": [{"role": "user", "content": f"Tell me a story about a {word}."}],
                 "temperature": 0.8, "seed": i, "min_tokens": 500, "max_tokens": 600}
                for i, word in enumerate(3 * WORDS)]
        seen = []
        for flags in ((), ("--predictor", "off")):
            # Slower steps, so that the worker is killed before it is done with everything.
            with Cluster(prefill=0, decode=2, flags=flags, decode_flags=["--enable-failpoints", "--log-level", "error"],
                         worker_environment={"BATON_FAILPOINT": "stepping:delay_ms=3"}) as cluster:
                answers = []
                asking = threading.Thread(target=lambda: answers.extend(
                    cluster.generate(made, "--chat", "--predict", concurrency=len(made))))
                asking.start()
                wait_until(lambda: cluster.router.metrics().sum("baton_generation_tokens_total") > 1000, "some tokens")
                cluster.decode[0].kill()
                asking.join()
                self.assertTrue(any(answer["attempts"] > 1 for answer in answers))
                seen.append([(answer["token_ids"], answer["text"], answer["finish_reason"]) for answer in answers])
        self.assertEqual(*seen)

    def test_predictions_come_for_every_step_behind_their_token(self):
        with Cluster() as cluster:
            cluster.generate(requests(30, "teach"), "--chat", concurrency=8)
            for answer in cluster.generate(requests(6), "--chat", "--predict"):
                ended = answer["finish_reason"] == "stop_eos"
                steps = [each["at_step"] for each in answer["predictions"]]
                length = len(answer["token_ids"])
                self.assertEqual(steps, list(range(1, length)), answer["finish_reason"])
                self.assertTrue(ended or length in (12, 60, 300))
                for each in answer["predictions"]:
                    self.assertEqual(list(each), ["at_step", "expected_remaining", "p50", "p90",
                                                  "within"])
                    self.assertEqual(list(each["within"]), HORIZONS)
                    chances = list(each["within"].values())
                    self.assertEqual(chances, sorted(chances))
                    self.assertTrue(0 <= chances[0] and chances[-1] <= 1)
                    self.assertGreaterEqual(each["expected_remaining"], 1)
                    self.assertTrue(1 <= each["p50"] <= each["p90"])
                    self.assertTrue(each["p50"].is_integer() and each["p90"].is_integer())
            metrics = cluster.decode[0].metrics()
            self.assertGreater(metrics.sum("baton_end_prediction_calibration_total"), 0)
            self.assertGreater(metrics.sum("baton_end_prediction_error_tokens_count"), 0)
            self.assertGreater(metrics.sum("baton_end_prediction_duration_seconds_count"), 0)
            self.assertEqual(metrics.sum("baton_predictor_info"), 1)

    def test_the_stream_has_them_behind_their_tokens_as_often_as_asked(self):
        with Cluster(model=self.untaught) as cluster:
            cluster.generate(requests(30, "teach"), "--chat", concurrency=8)
            client = Client(cluster.router.grpc)
            spec = {"spec": {"eos": {"predict": True, "predictEvery": 5},
                             "stop": {"maxTokens": 23, "minTokens": 23}, "sampling": {"seed": 5}},
                    "text": "Once upon a time"}
            tokens, steps = 0, []
            for message in client.stream("baton.v1.InferenceService/Generate", spec):
                kind = message.WhichOneof("event")
                if kind == "delta":
                    tokens += len(message.delta.token_ids)
                elif kind == "prediction":
                    steps.append(message.prediction.at_step)
                    self.assertEqual(tokens, message.prediction.at_step)
            self.assertEqual(steps, [5, 10, 15, 20])
            once = client.unary("baton.v1.InferenceService/GenerateOnce", spec)
            self.assertEqual([each.at_step for each in once.predictions], steps)
            client.close()

    def test_what_was_learnt_outlives_the_worker(self):
        with tempfile.TemporaryDirectory() as folder:
            state = pathlib.Path(folder) / "lengths.json"
            with Cluster(model=self.untaught, prefill=0,
                         decode_flags=["--predictor-state", str(state)]) as cluster:
                first = cluster.generate(requests(1, "new"), "--chat", "--predict")[0]
                self.assertEqual(first["predictions"], [])
                cluster.generate(requests(30, "teach"), "--chat", concurrency=8)
                cluster.decode[0].terminate()
            self.assertEqual(json.loads(state.read_text())["format"], "baton-predictor-state")
            with Cluster(model=self.untaught, prefill=0,
                         decode_flags=["--predictor-state", str(state)]) as cluster:
                again = cluster.generate(requests(1, "new"), "--chat", "--predict")[0]
                self.assertTrue(again["predictions"])
            state.write_text("not what it was")
            with Cluster(model=self.untaught, prefill=0,
                         decode_flags=["--predictor-state", str(state)]) as cluster:
                anew = cluster.generate(requests(1, "new"), "--chat", "--predict")[0]
                self.assertEqual(anew["predictions"], [])
                self.assertIn("learnt anew", cluster.decode[0].tail(400))

    def test_a_replay_is_foreseen_at_its_own_steps(self):
        with Cluster(prefill=0, decode=2) as cluster:
            cluster.generate(requests(60, "teach"), "--chat", concurrency=8)
            client = Client(cluster.router.grpc)
            spec = {"spec": {"eos": {"predict": True}, "sampling": {"seed": 3},
                             "stop": {"maxTokens": 1900, "minTokens": 1899}},
                    "text": "Once upon a time"}
            steps, tokens, killed = [], 0, False
            for message in client.stream("baton.v1.InferenceService/Generate", spec):
                kind = message.WhichOneof("event")
                if kind == "delta":
                    tokens += len(message.delta.token_ids)
                elif kind == "prediction":
                    self.assertEqual(tokens, message.prediction.at_step)
                    steps.append(message.prediction.at_step)
                elif kind == "final":
                    self.assertGreater(message.final.attempts, 1)
                if tokens >= 40 and not killed:
                    killed = True
                    for worker in cluster.decode:
                        if worker.metrics().sum("baton_num_requests_running") > 0:
                            worker.kill()
                            break
            self.assertEqual(steps, sorted(set(steps)))
            self.assertGreater(steps[-1], 1800)
            client.close()


if __name__ == "__main__":
    unittest.main()
