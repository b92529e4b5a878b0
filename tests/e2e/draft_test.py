"""Answers with a draft model are those without, however they ran; and the draft model is at work."""

import pathlib
import re
import subprocess
import tempfile
import unittest
import urllib.request

from cluster import BIN, DEMO_MODEL, PATIENCE_S, Cluster, Metrics, Process, generate

QUESTIONS = ["Tell me a story about a fox who looked for a friend.", "What is 7 + 5?", "Write a list of four words.",
             "Tell me a long story about a king and a boat.", "What is a river?", "Tell me about a garden with birds."]


def requests():
    """Greedy and drawn, with penalties and rules, and with several answers."""
    made = []
    for i, text in enumerate(QUESTIONS * 2):
        one = {"request_id": f"r{i}", "messages": [{"role": "user", "content": text}], "seed": 7 + i, "max_tokens": 48,
               "temperature": 0 if i < 6 else 0.8, "eos": "mask" if i % 2 else "honor"}
        if i % 3 == 1:
            one["repetition_penalty"] = 1.1
        if i % 4 == 3:
            one["no_repeat_ngram_size"] = 3
        made.append(one)
    return made


def figures(answers):
    """All that was drawn and measured, but for when."""
    found = []
    for answer in answers:
        rows = [{k: v for k, v in row.items() if k != "timestamp"} for row in answer["eos"]]
        found.append([answer[key] for key in ("token_ids", "text", "finish_reason", "stop_cause", "logprobs")] + [rows])
    return found


class DraftTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="baton-draft-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.path = pathlib.Path(cls.folder.name)
        cls.small = cls.path / "small"
        subprocess.run([BIN / "baton", "model", "quantize", DEMO_MODEL, cls.small, "--scheme", "w4"], check=True,
                       capture_output=True, timeout=PATIENCE_S)
        with Cluster(prefill=0, flags=["--max-num-seqs", "1"]) as service:
            cls.alone = figures(service.generate(requests(), "--chat"))

    def run_with(self, draft, *flags, prefill=1, concurrency=6, all_workers=()):
        """The metrics of the worker that generated, once its answers were those without a draft."""
        with Cluster(prefill=prefill, flags=list(all_workers),
                     decode_flags=["--draft-model", draft, *flags]) as service:
            answers = service.generate(requests(), "--chat", concurrency=concurrency)
            self.assertEqual(figures(answers), self.alone)
            service.assert_nothing_held()
            return service.decode[0].metrics()

    def assert_accepted(self, metrics, least):
        fed = metrics.sum("baton_spec_decode_num_draft_tokens_total")
        accepted = metrics.sum("baton_spec_decode_num_accepted_tokens_total")
        self.assertGreater(fed, 100)
        self.assertGreaterEqual(accepted, least * fed, (accepted, fed))
        self.assertGreater(metrics.sum("baton_spec_decode_draft_steps_total"), 0)
        self.assertGreater(metrics.sum("baton_spec_decode_draft_time_seconds_total"), 0)
        self.assertEqual(metrics.sum("baton_spec_decode_draft_kv_cache_usage_perc"), 0, "all is over")

    def test_the_model_as_its_own_draft_is_always_right(self):
        for prefill in (0, 1):
            with self.subTest(prefill=prefill):
                self.assert_accepted(self.run_with(DEMO_MODEL, prefill=prefill), 1)

    def test_a_copy_with_small_weights_is_mostly_right(self):
        self.assert_accepted(self.run_with(self.small), 0.5)

    def test_two_steps_in_flight_few_blocks_and_chunks(self):
        self.assert_accepted(self.run_with(self.small, "--async-scheduling", "on", prefill=0), 0.5)
        metrics = self.run_with(DEMO_MODEL, prefill=0,
                                all_workers=["--kv-cache-tokens", "256", "--max-num-batched-tokens", "24"])
        self.assert_accepted(metrics, 1)
        self.run_with(DEMO_MODEL, "--draft-kv-cache-tokens", "128")

    def test_serve_gives_it_to_the_workers_that_generate(self):
        for mode in ("split", "unified"):
            with self.subTest(mode):
                service = Process(f"serve-{mode}", [BIN / "baton", "serve", DEMO_MODEL, "--draft-model", self.small,
                                                    "--mode", mode, "--port", 0, "--admin-port", 0, "--http-port", 0,
                                                    "--eos-log", self.path / f"{mode}.jsonl"], self.path)
                self.addCleanup(service.kill)
                service.wait_ready()
                self.assertEqual(figures(generate(service.grpc, requests(), "--chat", concurrency=6)), self.alone)
                admin = re.search(r"decode worker serves gRPC on \S+ admin on (\S+)", service.log.read_text()).group(1)
                with urllib.request.urlopen(f"http://{admin}/metrics", timeout=PATIENCE_S) as page:
                    self.assert_accepted(Metrics(page.read().decode()), 0.5)
                text = service.log.read_text()
                self.assertRegex(text, r"\[decode-0\].* draft model [0-9a-f]{8}")
                self.assertNotRegex(text, r"\[prefill-0\].* draft model")
                self.assertEqual(service.terminate(), 0, service.tail())


if __name__ == "__main__":
    unittest.main()
