"""Runaways, length control and a wrong stop set, seen from outside."""

import json
import pathlib
import shutil
import tempfile
import threading
import unittest

from cluster import DEMO_MODEL, Cluster, wait_until

ENDLESS = "Tell me an endless story about a fox."
LIMIT = 1200  # far beyond the step at which that is known to be a runaway
PROMPTS = DEMO_MODEL / "prompts.jsonl"


def endless(request_id="endless", **more):
    return {"request_id": request_id, "messages": [{"role": "user", "content": ENDLESS}],
            "temperature": 0, "max_tokens": LIMIT, **more}


def ordinary(count):
    lines = PROMPTS.read_text().splitlines()[:count]
    return [{**json.loads(line), "request_id": f"o{i}", "temperature": 0.8 * (i % 2), "seed": i,
             "max_tokens": 600} for i, line in enumerate(lines)]


def runaways(service, action):
    return sum(worker.metrics().sum("baton_runaway_total", action=action)
               for worker in (*service.decode, *service.prefill))


class Runaway(unittest.TestCase):
    def test_it_is_told_and_goes_on(self):
        with Cluster() as service:
            answer = service.generate([endless()])[0]
            self.assertEqual(answer["finish_reason"], "length")
            self.assertEqual((runaways(service, "warn"), runaways(service, "end")), (1, 0))
            log = service.decode[0].log.read_text()
            self.assertEqual(log.count("request endless: runaway at step "), 1, log)

    def test_ordinary_answers_end_as_ever(self):
        made = ordinary(60)
        with Cluster(flags=["--runaway", "end"]) as service:
            answers = service.generate(made, concurrency=16)
            self.assertEqual({answer["finish_reason"] for answer in answers}, {"stop_eos"})
            self.assertEqual((runaways(service, "warn"), runaways(service, "end")), (0, 0))

    def test_who_ignores_eos_is_left_alone(self):
        with Cluster(prefill=0, flags=["--runaway", "end"]) as service:
            answers = service.generate([endless(policy, eos=policy) for policy in ("continue", "mask")])
            for answer in answers:
                self.assertEqual((answer["finish_reason"], len(answer["token_ids"])), ("length", LIMIT))

    def test_it_ends_at_the_same_step_however_it_ran(self):
        with Cluster(prefill=0, flags=["--runaway", "end"]) as service:
            whole = service.generate([endless()])[0]
        self.assertEqual((whole["finish_reason"], whole["stop_cause"]), ("runaway", "runaway"))
        self.assertLess(len(whole["token_ids"]), LIMIT)
        self.split_and_told(whole)
        self.preempted(whole)
        for step in (100, len(whole["token_ids"]) - 3):
            self.resumed(whole, step)

    def same(self, answer, whole):
        for key in ("token_ids", "text", "finish_reason", "stop_cause"):
            self.assertEqual(answer[key], whole[key], key)

    def split_and_told(self, whole):
        with Cluster(flags=["--runaway", "end"]) as service:
            self.same(service.generate([endless()])[0], whole)
            rows = wait_until(lambda: [r for r in service.eos_rows("endless") if r["is_finished"]], "the end")
            self.assertEqual((rows[0]["finish_reason"], rows[0]["natural_end_step"]), ("runaway", None))
            summary = json.loads(pathlib.Path(f"{service.eos_log}.requests.jsonl").read_text())
            self.assertEqual((summary["finish_reason"], summary["stop_cause"]), ("runaway", "runaway"))
            self.assertEqual((runaways(service, "warn"), runaways(service, "end")), (0, 1))
            self.assertEqual(service.router.metrics().sum(
                "baton_request_success_total", finished_reason="length", stop_cause="runaway"), 1)
            service.assert_nothing_held()

    def preempted(self, whole):
        tokens = len(whole["token_ids"])
        # Prompts wait until both are there, so that both run until blocks are short.
        tight = ["--runaway", "end", "--kv-cache-tokens", str(tokens * 3 // 2), "--max-num-seqs", "2",
                 "--prefill-batch-wait-ms", "60000"]
        made = [endless(max_tokens=tokens + 20), endless("other", max_tokens=tokens + 20)]
        with Cluster(prefill=0, flags=tight) as service:
            for answer in service.generate(made, concurrency=2):
                self.same(answer, whole)
            self.assertGreaterEqual(service.decode[0].metrics().sum("baton_num_preemptions_total"), 1)

    def resumed(self, whole, step):
        with Cluster(decode_flags=["--enable-failpoints"], flags=["--runaway", "end"],
                     worker_environment={"BATON_FAILPOINT": f"decoding@{step}:stop"}) as service:
            answers = []
            thread = threading.Thread(target=lambda: answers.extend(
                service.generate([endless()], check=False)))
            thread.start()
            service.replace_stopped_decode()
            thread.join()
            self.same(answers[0], whole)
            self.assertEqual(answers[0]["attempts"], 2)


class LengthControl(unittest.TestCase):
    QUESTION = "Tell me a story about a bear named Ada."

    def requests(self, count, **more):
        return [{"request_id": f"r{i}", "messages": [{"role": "user", "content": self.QUESTION}],
                 "temperature": 0.8, "seed": i, "max_tokens": 600, **more} for i in range(count)]

    def test_answers_come_near_the_target_by_eos(self):
        means = {}
        with Cluster(prefill=0) as service:
            for target in (40, 300):
                answers = service.generate(
                    self.requests(8, length_target=target, length_strength=20), concurrency=8)
                means[target] = sum(len(answer["token_ids"]) for answer in answers) / len(answers)
                self.assertEqual({answer["finish_reason"] for answer in answers}, {"stop_eos"})
        self.assertLess(means[40], 80)
        self.assertGreater(means[300], 220)

    def test_tokens_are_the_same_however_it_ran(self):
        made = self.requests(6, length_target=50, length_strength=7, max_tokens=140)
        # In the third the first two wait for each other, so that both run until blocks are short.
        ways = [dict(prefill=0, flags=["--max-num-seqs", "1"]), dict(),
                dict(prefill=0, flags=["--max-num-batched-tokens", "7", "--kv-cache-tokens", "160",
                                       "--max-num-seqs", "2", "--prefill-batch-wait-ms", "5000"]),
                dict(flags=["--async-scheduling", "on"])]
        found = []
        for way in ways:
            with Cluster(**way) as service:
                answers = service.generate(made, "--eos-steps", concurrency=6)
                if "--kv-cache-tokens" in way.get("flags", ()):
                    self.assertGreaterEqual(
                        service.decode[0].metrics().sum("baton_num_preemptions_total"), 1)
            found.append([(answer["token_ids"], [(row["eos_logprob"], row["eos_prob_sampling"])
                                                 for row in answer["eos"]]) for answer in answers])
        for other in found[1:]:
            self.assertEqual(other, found[0])


class WrongStopSet(unittest.TestCase):
    def test_a_turn_end_that_is_no_eos_id_is_named(self):
        with tempfile.TemporaryDirectory(prefix="baton-e2e-model-") as folder:
            model = pathlib.Path(folder) / "model"
            shutil.copytree(DEMO_MODEL, model)
            for name in ("config.json", "generation_config.json"):
                settings = json.loads((model / name).read_text())
                (model / name).write_text(json.dumps({**settings, "eos_token_id": 2}))
            settings = json.loads((model / "tokenizer_config.json").read_text())
            settings["eos_token"] = "<|endoftext|>"
            (model / "tokenizer_config.json").write_text(json.dumps(settings))
            made = [{"messages": [{"role": "user", "content": f"Tell me a story about a {who}."}],
                     "temperature": 0, "max_tokens": 400}
                    for who in ("fox", "bear", "wolf", "frog", "cat", "mouse", "owl", "dog", "hare", "mole")]
            with Cluster(model=model) as service:
                service.generate(made, concurrency=10)
                log = service.decode[0].log.read_text()
                self.assertEqual(log.count("special token 1 '<|end|>'"), 1, log)
                self.assertGreaterEqual(
                    service.decode[0].metrics().sum("baton_passed_special_tokens_total"), 8)

    def test_the_right_one_is_not(self):
        with Cluster() as service:
            service.generate(ordinary(30), concurrency=16)
            self.assertNotIn("special token", service.decode[0].log.read_text())
            self.assertEqual(service.decode[0].metrics().sum("baton_passed_special_tokens_total"), 0)


if __name__ == "__main__":
    unittest.main()
