"""Guided answers: whole ones validate, and are the same however the request ran.

BATON_GUIDED_SCHEMAS and BATON_GUIDED_REQUESTS make the first test as large as one likes.
"""

import concurrent.futures
import json
import os
import re
import unittest

import grpc
import jsonschema

import client
import json_schemas
import openai_client
from cluster import Cluster, begin

SCHEMAS = int(os.environ.get("BATON_GUIDED_SCHEMAS", "10"))
REQUESTS = int(os.environ.get("BATON_GUIDED_REQUESTS", "40"))
POINT = {"type": "object", "properties": {"y": {"type": "integer"}, "x": {"enum": ["left", "right"]}},
         "required": ["y", "x"], "additionalProperties": False}
WAYS = [{"guidedJson": json.dumps(POINT)}, {"guidedRegex": "[a-z]{3,8}( [a-z]{2,5}){4}[.]"},
        {"guidedChoice": ["yes", "no", "it depends"]}, {"jsonObject": True},
        {"guidedGrammar": 'start: "[" (NUMBER ("," NUMBER)*)? "]"\nNUMBER: /[0-9]{1,4}/'}]
# Much of its answers is forced.
FOX = {"type": "object", "properties": {"favourite_food": {"enum": ["apples", "bread and butter"]},
                                        "does_it_sleep": {"type": "boolean"}, "number_of_friends": {"type": "integer"}},
       "required": ["favourite_food", "does_it_sleep", "number_of_friends"], "additionalProperties": False}


def request(index, guide, **stop):
    return {"messages": [{"role": "user", "content": f"Tell me a story about {index} foxes."}],
            "spec": {"request_id": f"g{index}-{len(json.dumps(guide))}", **guide,
                     "sampling": {"seed": str(index + 1), "temperature": 0 if index % 3 == 0 else 1},
                     "stop": {"max_tokens": 160, **stop}}}


class Answer:
    def __init__(self, events):
        self.text, self.ids, self.logprobs, self.final = "", [], [], None
        for event in events:
            self.text += event.delta.text
            self.ids += event.delta.token_ids
            self.logprobs += event.delta.logprobs
            if event.HasField("final"):
                self.final = event.final

    @property
    def reason(self):
        return client.message("baton.v1.Final").DESCRIPTOR.fields_by_name[
            "finish_reason"].enum_type.values_by_number[self.final.finish_reason].name.removeprefix(
                "FINISH_REASON_").lower()


def ask(service, requests, concurrency=1):
    link = client.Client(service.router.grpc)
    try:
        with concurrent.futures.ThreadPoolExecutor(concurrency) as pool:
            return list(pool.map(
                lambda one: Answer(link.stream("baton.v1.InferenceService/ChatGenerate", one, 600)), requests))
    finally:
        link.close()


class WholeAnswersValidate(unittest.TestCase):
    def test_json_schemas(self):
        schemas = json_schemas.make(SCHEMAS)
        with Cluster(decode=1, prefill=1, eos_log=False, flags=["--max-num-seqs", "16"]) as service:
            made = [request(i, {"guidedJson": json.dumps(schemas[i % SCHEMAS])}, max_tokens=300)
                    for i in range(REQUESTS)]
            answers = ask(service, made, concurrency=8)
            service.assert_nothing_held()
        whole = 0
        for i, answer in enumerate(answers):
            if answer.reason == "length":
                continue
            self.assertIn(answer.reason, ("stop_grammar", "stop_eos"))
            with self.subTest(schema=schemas[i % SCHEMAS], text=answer.text):
                jsonschema.Draft202012Validator(schemas[i % SCHEMAS]).validate(json.loads(answer.text))
            whole += 1
        print(f"{whole} of {REQUESTS} answers over {SCHEMAS} schemas are whole; all of them validate")
        self.assertGreater(whole, 0.8 * REQUESTS)

    def test_other_guides(self):
        with Cluster(prefill=0) as service:
            regex, choice, anything, grammar = ask(service, [
                request(i, guide) for i, guide in enumerate(WAYS[1:])])
        self.assertTrue(re.fullmatch("[a-z]{3,8}( [a-z]{2,5}){4}[.]", regex.text), regex.text)
        self.assertEqual(regex.reason, "stop_grammar")
        self.assertIn(choice.text, ("yes", "no", "it depends"))
        if anything.reason != "length":
            self.assertIsInstance(json.loads(anything.text), dict)
        if grammar.reason != "length":
            self.assertTrue(all(isinstance(number, int) for number in json.loads("[%s]" % ",".join(
                str(int(number)) for number in grammar.text.strip("[]").split(",") if number))))

    def test_a_complete_grammar_ends_before_min_tokens(self):
        with Cluster(prefill=0, eos_log=False) as service:
            answer = ask(service, [request(1, WAYS[2], min_tokens=50)])[0]
        self.assertIn(answer.text, ("yes", "no", "it depends"))
        self.assertEqual(answer.reason, "stop_grammar")


class SameTokens(unittest.TestCase):
    """The reference is each request alone on one unified worker, one token in each step."""

    @classmethod
    def setUpClass(cls):
        ways = [*WAYS, {"guidedJson": json.dumps(FOX)}]
        cls.requests = [request(i, ways[i % len(ways)]) for i in range(12)]
        one_by_one = ["--max-num-seqs", "1", "--no-jump-forward"]
        with Cluster(prefill=0, eos_log=False, flags=one_by_one) as service:
            cls.alone = ask(service, cls.requests)
            metrics = service.decode[0].metrics()
            cls.forced = metrics.sum("baton_guide_forced_tokens_total")
            assert metrics.sum("baton_guide_jumped_tokens_total") == 0

    def same(self, answers, attempts=1):
        for i, (answer, alone) in enumerate(zip(answers, self.alone)):
            self.assertEqual(answer.ids, alone.ids, f"request {i}: {answer.text!r}, {alone.text!r}")
            self.assertEqual((answer.text, answer.reason), (alone.text, alone.reason))
            self.assertEqual(answer.final.attempts, attempts)

    def test_batched(self):
        with Cluster(prefill=0, eos_log=False) as service:
            self.same(ask(service, self.requests, concurrency=12))
            metrics = service.decode[0].metrics()
            self.assertGreater(metrics.sum("baton_batch_size_sum", phase="decode"),
                               metrics.sum("baton_batch_size_count", phase="decode"))
            self.assertEqual(metrics.sum("baton_guide_forced_tokens_total"), self.forced)
            self.assertGreater(metrics.sum("baton_guide_jumped_tokens_total"), 20)
            # Figures come with every token where they are asked for, also with what is forced.
            figures = [{**one, "spec": {**one["spec"], "request_id": f"figures-{i}", "output": {"logprobs": 1}}}
                       for i, one in enumerate(self.requests)]
            answers = ask(service, figures, concurrency=10)
            self.same(answers)
            for answer in answers:
                self.assertEqual(len(answer.logprobs), len(answer.ids))
                self.assertTrue(all(one.logprob <= 0 and len(one.top) == 1 for one in answer.logprobs))
            service.assert_nothing_held()

    def test_with_two_steps_in_flight_and_speculation(self):
        # Without a predictor file nobody reads what is measured at forced tokens.
        flags = ["--async-scheduling", "on", "--speculative", "ngram", "--predictor", "off"]
        with Cluster(prefill=0, eos_log=False, flags=flags) as service:
            self.same(ask(service, self.requests, concurrency=10))
            self.assertGreater(service.decode[0].metrics().sum("baton_guide_jumped_tokens_total"), 20)

    def test_split(self):
        with Cluster(decode=1, prefill=1, eos_log=False) as service:
            self.same(ask(service, self.requests, concurrency=4))
            self.assertGreater(service.decode[0].metrics().sum(
                "baton_prompt_tokens_by_source_total", source="external_kv_transfer"), 0)
            self.assertGreater(service.decode[0].metrics().sum("baton_guide_jumped_tokens_total"), 10)
            service.assert_nothing_held()

    def test_preempted(self):
        tight = ["--max-num-seqs", "8", "--prefill-batch-wait-ms", "1000", "--kv-cache-tokens", "192"]
        # The two longest answers run side by side and do not fit together.
        order = sorted(range(len(self.requests)), key=lambda i: -len(self.alone[i].ids))
        with Cluster(prefill=0, eos_log=False, flags=tight) as service:
            answers = [answer for some in (order[:2], order[2:]) for answer in ask(
                service, [self.requests[i] for i in some], concurrency=len(some))]
            self.same([answers[order.index(i)] for i in range(len(order))])
            self.assertGreaterEqual(service.decode[0].metrics().sum("baton_num_preemptions_total"), 1)

    def test_replayed_after_a_kill(self):
        with Cluster(decode=1, prefill=1, eos_log=False, decode_flags=["--enable-failpoints"],
                     worker_environment={"BATON_FAILPOINT": "decoding@8:stop"}) as service:
            answers = begin(ask, service, self.requests[:1])
            service.replace_stopped_decode()
            self.same(answers.result(), attempts=2)
            service.assert_nothing_held()


class Protocols(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(prefill=0, eos_log=False, router_flags=["--http-port", "0"])
        cls.cluster.__enter__()
        cls.http = openai_client.Http(cls.cluster.router.ready["http"])

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__(None, None, None)

    def chat(self, **fields):
        return {"messages": [{"role": "user", "content": "Where?"}], "max_tokens": 100, "seed": 3, **fields}

    def test_response_format(self):
        answer = self.http.complete(**self.chat(response_format={
            "type": "json_schema", "json_schema": {"name": "point", "strict": True, "schema": POINT}}))
        choice = answer["choices"][0]
        self.assertEqual(choice["finish_reason"], "stop")
        value = json.loads(choice["message"]["content"])
        jsonschema.validate(value, POINT)
        self.assertEqual(list(value), ["y", "x"], "the order of the schema")
        answer = self.http.complete(**self.chat(guided_choice=["left", "right"]))
        self.assertIn(answer["choices"][0]["message"]["content"], ("left", "right"))

    def test_refusals_name_field_and_reason(self):
        for fields, param, code in (
                ({"guided_json": {"type": "nope"}}, "guided_json", "invalid_guide"),
                ({"guided_regex": "("}, "guided_regex", "invalid_guide"),
                ({"guided_regex": "a", "guided_choice": ["b"]}, "guided_choice", "conflicting_options"),
                ({"guided_choice": ["b"], "ignore_eos": True}, "guided_choice", "conflicting_options"),
                ({"guided_json": {"a": "b" * 70000}}, "guided_json", "limit_exceeded"),
                ({"response_format": {"type": "json_schema"}}, "response_format.json_schema", None)):
            with self.subTest(fields=str(fields)[:80]):
                status, error = self.http.refuse(**self.chat(**fields))
                self.assertEqual((status, error["param"], error["code"]), (400, param, code), error)

    def test_hostile_guides_cost_their_own_request_only(self):
        hostile = [{"guidedRegex": "a?" * 4000 + "a" * 4000}, {"guidedGrammar": "start: " + '("a"?)' * 5000},
                   {"guidedRegex": "(.*a.{2000})"}, {"guidedGrammar": "start: start start | \"a\""}]
        good = request(7, WAYS[2])
        alone = ask(self.cluster, [good])[0]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            def attack(guide):
                try:
                    return ask(self.cluster, [request(hash(str(guide)) % 97 + 10, guide, max_tokens=30)])[0].reason
                except grpc.RpcError as error:
                    return client.reason_of(error)
            attacks = [pool.submit(attack, guide) for guide in hostile]
            answers = [pool.submit(lambda i=i: ask(self.cluster, [
                {**good, "spec": {**good["spec"], "request_id": f"beside-{i}"}}])[0]) for i in range(8)]
            for answer in answers:
                self.assertEqual(answer.result().ids, alone.ids)
            for one in attacks:
                self.assertIn(one.result(), ("INVALID_GUIDE", "LIMIT_EXCEEDED", "QUEUE_FULL", "length",
                                             "stop_grammar", "stop_eos"))
        self.assertTrue(self.cluster.decode[0].running())
        self.cluster.assert_nothing_held()


if __name__ == "__main__":
    unittest.main()
