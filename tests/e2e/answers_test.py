"""Several answers to one request: each is that of its seed alone, however it ran, and the prompt is computed once."""

import json
import threading
import unittest

from client import Client
from cluster import Cluster, wait_until
from openai_client import Http

STORY = "Tell me a long story about a fox who looked for a friend in the forest and by the river."
SEED = 42
GENERATE = "baton.v1.InferenceService/Generate"
MASK = (1 << 64) - 1


def seed_of(index, seed=SEED):
    """As proto/baton/v1/inference.proto says at SamplingParams.n."""
    if index == 0:
        return seed
    z = (seed + index * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def ask(request_id, **more):
    return {"request_id": request_id, "messages": [{"role": "user", "content": STORY}], "temperature": 0.9,
            "seed": SEED, "max_tokens": 48, **more}


def alone(service, count, **more):
    """The answers of the first `count` indices, each asked for by itself."""
    return service.generate([ask(f"alone{i}", **{**more, "seed": seed_of(i)}) for i in range(count)], "--chat")


class AnswersTest(unittest.TestCase):
    def check_each_as_alone(self, service, answer, count):
        expected = alone(service, count)
        self.assertEqual([one["index"] for one in answer["answers"]], list(range(count)))
        for one, other in zip(answer["answers"], expected):
            self.assertEqual(one["token_ids"], other["token_ids"], f"answer {one['index']}")
            self.assertEqual(one["text"], other["text"])
            self.assertEqual(one["seed"], seed_of(one["index"]))
        self.assertEqual(answer["usage"]["prompt_tokens"], expected[0]["usage"]["prompt_tokens"])
        self.assertEqual(answer["usage"]["completion_tokens"], sum(len(other["token_ids"]) for other in expected))

    def test_split_computes_and_pushes_the_prompt_once(self):
        with Cluster(decode=2, prefill=1) as service:
            answer, = service.generate([ask("several", n=3)], "--chat")
            prompt = answer["usage"]["prompt_tokens"]
            sums = {"computed": 0, "external_kv_transfer": 0}
            for worker in (*service.decode, *service.prefill):
                for source, key in (("local_compute", "computed"), ("external_kv_transfer", "external_kv_transfer")):
                    sums[key] += worker.metrics().sum("baton_prompt_tokens_by_source_total", source=source)
            self.assertEqual(sums["external_kv_transfer"], prompt)
            # Each further answer computes what no whole block holds: 1 to 16 tokens.
            again = (prompt - 1) % 16 + 1
            self.assertEqual(sums["computed"], prompt + 2 * again)
            self.assertEqual(len({one["workers"]["decode"] for one in answer["answers"]}), 1)
            rows = service.finished_rows("several", answers=3)
            for one in answer["answers"]:
                tokens = [row["current_token_id"] for row in rows if row["index"] == one["index"]]
                self.assertEqual(tokens, one["token_ids"])
            self.check_each_as_alone(service, answer, 3)
            service.assert_nothing_held()

    def test_unified(self):
        with Cluster(decode=1, prefill=0) as service:
            answer, = service.generate([ask("several", n=3)], "--chat")
            self.check_each_as_alone(service, answer, 3)
            service.assert_nothing_held()

    def test_best_of_is_what_a_client_would_choose(self):
        with Cluster(decode=1, prefill=1) as service:
            others = alone(service, 5, logprobs=0)
            scores = [sum(row["logprob"] for row in other["logprobs"]) / len(other["logprobs"]) for other in others]
            order = sorted(range(5), key=lambda i: (-scores[i], i))[:2]
            for name, more in (("best", {}), ("told", {"logprobs": 0})):
                answer, = service.generate([ask(name, n=2, best_of=5, **more)], "--chat")
                self.assertEqual([one["seed"] for one in answer["answers"]], [seed_of(i) for i in order])
                self.assertEqual([one["token_ids"] for one in answer["answers"]],
                                 [others[i]["token_ids"] for i in order])
                for one, i in zip(answer["answers"], order):
                    self.assertAlmostEqual(one["score"], scores[i], places=5)
                self.assertEqual(answer["usage"]["completion_tokens"], sum(len(o["token_ids"]) for o in others))
                self.check_the_log_has_them_by_seed(service, name, answer, 5)
            service.assert_nothing_held()

    def check_the_log_has_them_by_seed(self, service, name, answer, drawn):
        """Its rows have the index of the draw, which the summary with an answer's seed names."""
        def indices():
            text = service.eos_log.with_name(f"{service.eos_log.name}.requests.jsonl").read_text()
            summaries = [json.loads(line) for line in text.splitlines()]
            return {one["sampling"]["seed"]: one["index"] for one in summaries if one["request_id"] == name}
        rows = service.finished_rows(name, answers=drawn)
        wait_until(lambda: len(indices()) == drawn, "summaries of all that were drawn")
        for one in answer["answers"]:
            tokens = [row["current_token_id"] for row in rows if row["index"] == indices()[one["seed"]]]
            self.assertEqual(tokens, one["token_ids"])

    def test_a_worker_that_dies_costs_no_token(self):
        with Cluster(decode=1, prefill=1, decode_flags=["--enable-failpoints"],
                     worker_environment={"BATON_FAILPOINT": "decoding@20:stop"}) as service:
            answers = []
            thread = threading.Thread(target=lambda: answers.extend(
                service.generate([ask("several", n=3)], "--chat", check=False)))
            thread.start()
            service.replace_stopped_decode()
            thread.join()
            answer, = answers
            self.assertGreater(sum(one["attempts"] for one in answer["answers"]), 3)
            self.check_each_as_alone(service, answer, 3)
            service.assert_nothing_held()

    def test_cancelling_frees_all(self):
        with Cluster(decode=1, prefill=1, router_flags=["--ignore-eos", "allow"]) as service:
            client = Client(service.router.grpc)
            call = client.stream(GENERATE, {"text": STORY, "spec": {
                "requestId": "gone", "sampling": {"n": 4, "seed": 1},
                "stop": {"maxTokens": 1500, "eosPolicy": "EOS_POLICY_IGNORE_CONTINUE"}}})
            seen = set()
            for event in call:
                if event.HasField("delta"):
                    seen.add(event.delta.index)
                if len(seen) == 4:
                    break
            call.cancel()
            client.close()
            service.assert_nothing_held()
            wait_until(lambda: {row["index"] for row in service.eos_rows("gone")} == {0, 1, 2, 3},
                       "rows of every answer")


class OpenAiAnswersTest(unittest.TestCase):
    ASKED = {"prompt": "Once upon a", "temperature": 0.9, "seed": SEED, "max_tokens": 24}

    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(Cluster(router_flags=["--http-port", "0"]))
        cls.http = Http(cls.cluster.router.ready["http"])
        cls.alone = [cls.http.complete(**{**cls.ASKED, "seed": seed_of(i)}) for i in range(4)]
        cls.texts = [answer["choices"][0]["text"] for answer in cls.alone]

    def test_choices(self):
        answer = self.http.complete(**self.ASKED, n=3)
        self.assertEqual([choice["index"] for choice in answer["choices"]], [0, 1, 2])
        self.assertEqual([choice["text"] for choice in answer["choices"]], self.texts[:3])
        self.assertEqual(answer["usage"]["prompt_tokens"], self.alone[0]["usage"]["prompt_tokens"])
        self.assertEqual(answer["usage"]["completion_tokens"],
                         sum(other["usage"]["completion_tokens"] for other in self.alone[:3]))

    def test_streams(self):
        chunks = self.http.stream(**self.ASKED, n=3, stream_options={"include_usage": True})
        texts, ends = ["", "", ""], {}
        for chunk in chunks[:-1]:
            choice, = chunk["choices"]
            texts[choice["index"]] += choice["text"]
            if choice["finish_reason"]:
                ends[choice["index"]] = choice["finish_reason"]
        self.assertEqual(texts, self.texts[:3])
        self.assertEqual(set(ends), {0, 1, 2})
        self.assertEqual(chunks[-1]["usage"]["completion_tokens"],
                         sum(other["usage"]["completion_tokens"] for other in self.alone[:3]))

    def test_chats(self):
        asked = {"messages": [{"role": "user", "content": STORY}], "max_tokens": 12, "seed": 3, "temperature": 0.9}
        whole = self.http.complete(**asked, n=2)
        chunks = self.http.stream(**asked, n=2)
        roles = [chunk["choices"][0]["index"] for chunk in chunks if "role" in chunk["choices"][0]["delta"]]
        self.assertEqual(roles, [0, 1])
        for choice in whole["choices"]:
            streamed = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks
                               if chunk["choices"][0]["index"] == choice["index"])
            self.assertEqual(streamed, choice["message"]["content"])

    def test_best_of(self):
        for stream in (False, True):
            asked = {**self.ASKED, "n": 2, "best_of": 4, "baton": {}}
            if stream:
                chunks = [chunk["choices"][0] for chunk in self.http.stream(**asked)]
                texts = ["".join(c["text"] for c in chunks if c["index"] == i) for i in range(2)]
            else:
                answer = self.http.complete(**asked)
                texts = [choice["text"] for choice in answer["choices"]]
                scores = [choice["baton"]["score"] for choice in answer["choices"]]
                self.assertEqual(scores, sorted(scores, reverse=True))
            self.assertTrue(set(texts) <= set(self.texts), texts)
            self.assertEqual(len(texts), 2)

    def test_what_does_not_fit_is_refused_by_name(self):
        for fields, param, code in (({"n": 0}, "n", "invalid_sampling"),
                                    ({"n": 65}, "n", "limit_exceeded"),
                                    ({"best_of": 65}, "best_of", "limit_exceeded"),
                                    ({"n": 3, "best_of": 2}, "best_of", "conflicting_options"),
                                    ({"best_of": 2, "baton": {"predict": True}}, "baton.predict",
                                     "conflicting_options")):
            status, error = self.http.refuse(prompt="x", **fields)
            self.assertEqual((status, error["param"], error["code"]), (400, param, code), error)
        status, error = self.http.refuse(prompt="x", n="two")
        self.assertEqual((status, error["param"]), (400, "n"))
        status, error = self.http.refuse(messages=[{"role": "user", "content": "x"}], best_of=2)
        self.assertEqual((error["param"], error["code"]), ("best_of", "unsupported_field"))


if __name__ == "__main__":
    unittest.main()
