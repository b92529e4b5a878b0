"""Beam searches through whole services: the same answers split, on one worker, in a small pool, and when a worker dies."""

import threading
import unittest

from cluster import Cluster, wait_until
from faults_test import armed, victim_of
from openai_client import Http

STORY = "Tell me a long story about a fox who looked for a friend in the forest and by the river."
BEAMS = {"beam_width": 4, "n": 3, "length_penalty": 0.6, "early_stopping": "never", "max_tokens": 40}
KILLED = [("decode", "committing", False), ("decode", "started", False), ("decode", "stepping@20", False),
          ("decode", "finishing", False), ("decode", "stepping@20", True), ("prefill", "prefilling", False),
          ("prefill", "first_token_sent", False)]


def ask(request_id, **more):
    return {"request_id": request_id, "messages": [{"role": "user", "content": STORY}], **BEAMS, **more}


def found(answer):
    return [(one["token_ids"], one["text"], one["score"], one["finish_reason"]) for one in answer["answers"]]


class BeamsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with Cluster(decode=1, prefill=0) as service:
            answer, = service.generate([ask("unified")], "--chat")
            cls.unified = found(answer)
            cls.prompt = answer["usage"]["prompt_tokens"]
            cls.length = max(len(one["token_ids"]) for one in answer["answers"])
            service.assert_nothing_held()
        assert len(cls.unified) == 3
        scores = [score for _, _, score, _ in cls.unified]
        assert scores == sorted(scores, reverse=True), scores

    def test_split_and_over_http(self):
        with Cluster(decode=1, prefill=1, router_flags=["--http-port", "0"]) as service:
            answer, = service.generate([ask("split")], "--chat")
            self.assertEqual(found(answer), self.unified)
            self.assertTrue(answer["answers"][0]["workers"]["prefill"])
            self.assertEqual(service.eos_rows("split"), [])
            answer = Http(service.router.ready["http"]).complete(
                messages=[{"role": "user", "content": STORY}], max_tokens=40, n=3, use_beam_search=True,
                length_penalty=0.6, early_stopping="never", baton={"beam_width": 4})
            self.assertEqual([choice["message"]["content"] for choice in answer["choices"]],
                             [text for _, text, _, _ in self.unified])
            self.assertEqual([choice["baton"]["score"] for choice in answer["choices"]],
                             [score for _, _, score, _ in self.unified])
            service.assert_nothing_held()

    def test_preempted_among_others(self):
        # Room for the search and one other, not for all that come.
        blocks = self.prompt // 16 + 4 * (self.length // 16 + 2) + 4
        with Cluster(decode=1, prefill=0, flags=["--kv-cache-tokens", str(16 * blocks)]) as service:
            others = [{"request_id": f"other{i}", "messages": [{"role": "user", "content": f"{i}. {STORY}"}],
                       "max_tokens": 64, "eos": "continue", "seed": i} for i in range(4)]
            answers = service.generate([*others, ask("among"), *[{**o, "request_id": "late" + o["request_id"]}
                                                                 for o in others]], "--chat", concurrency=9)
            self.assertEqual(found(answers[4]), self.unified)
            self.assertGreater(service.decode[0].metrics().sum("baton_num_preemptions_total"), 0)
            service.assert_nothing_held()

    def test_a_worker_that_dies_changes_nothing(self):
        """Rows of the kill matrix (faults_test.py)."""
        for role, state, local in KILLED:
            with self.subTest(role=role, state=state, local=local), armed(role, state, local) as service:
                answers = []
                thread = threading.Thread(target=lambda: answers.extend(service.generate([ask("dies")], "--chat")))
                thread.start()
                victim = victim_of(service, role)
                wait_until(victim.stopped, "the failpoint")
                port = victim.grpc.rsplit(":", 1)[1]
                victim.kill()
                (service.decode if role == "decode" else service.prefill).remove(victim)
                service.worker_environment = {}
                service.spawn_worker(role, port=port).wait_ready()
                thread.join()
                answer, = answers
                self.assertEqual(found(answer), self.unified)
                service.assert_nothing_held()


if __name__ == "__main__":
    unittest.main()
