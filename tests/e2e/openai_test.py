"""The OpenAI protocol on the shipped router, without a client library: the same tokens as over gRPC, the
same books, and defined answers to whatever is sent."""

import json
import pathlib
import subprocess
import tempfile
import threading
import unittest

from cluster import BIN, DEMO_MODEL, PATIENCE_S, Cluster, wait_until
from openai_client import Http, Raw, head, text_of

STORY = [{"role": "user", "content": "Tell me a story about a fox."}]
LIST = [{"role": "user", "content": "List 5 animals."}]


class OpenAiTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(router_flags=["--http-port", "0", "--ignore-eos", "allow"])
        cls.cluster.__enter__()
        cls.http = Http(cls.cluster.router.ready["http"])

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__(None, None, None)

    def tearDown(self):
        self.cluster.assert_nothing_held()

    def same_as_grpc(self, ours, theirs):
        self.assertEqual(ours["baton"]["token_ids"], theirs["token_ids"])
        self.assertEqual(ours["usage"]["completion_tokens"], theirs["usage"]["completion_tokens"])
        self.assertEqual(ours["usage"]["prompt_tokens"], theirs["usage"]["prompt_tokens"])
        for key in ("finish_reason", "stop_cause", "stop_match", "attempts"):
            self.assertEqual(ours["baton"][key], theirs[key], key)

    def test_tokens_are_those_of_grpc(self):
        sampling = {"temperature": 0.9, "top_p": 0.95, "seed": 7, "max_tokens": 80, "presence_penalty": 0.3}
        [theirs] = self.cluster.generate([{"messages": STORY, "request_id": "g1", **sampling}], "--chat")
        ours = self.http.complete(messages=STORY, baton={}, **sampling)
        self.same_as_grpc(ours, theirs)
        self.assertEqual(ours["choices"][0]["message"]["content"], theirs["text"])
        [theirs] = self.cluster.generate([{"prompt": "Once upon a", "request_id": "g2", **sampling}])
        ours = self.http.complete(prompt="Once upon a", baton={}, **sampling)
        self.same_as_grpc(ours, theirs)
        self.assertEqual(ours["choices"][0]["text"], theirs["text"])
        by_ids = self.http.complete(prompt=[5, 6, 7], baton={}, **sampling)
        [theirs] = self.cluster.generate([{"token_ids": [5, 6, 7], "request_id": "g3", **sampling}])
        self.same_as_grpc(by_ids, theirs)

    def test_a_preset_is_the_numbers_that_it_stands_for(self):
        numbers = {"temperature": 0.9, "top_p": 0.95, "presence_penalty": 0.3}
        rest = {"messages": STORY, "seed": 3, "max_tokens": 60}
        spelled = self.http.complete(**rest, **numbers, baton={})
        preset = self.http.complete(**rest, preset="creative", baton={})
        self.assertEqual(preset["baton"]["token_ids"], spelled["baton"]["token_ids"])
        self.assertEqual(preset["baton"]["sampling"], preset["baton"]["sampling"] | numbers)
        [theirs] = self.cluster.generate([{**rest, "preset": "creative"}], "--chat")
        self.assertEqual(theirs["token_ids"], spelled["baton"]["token_ids"])
        self.assertEqual(theirs["sampling"], preset["baton"]["sampling"])
        status, error = self.http.refuse(**rest, preset="poetry")
        self.assertEqual((status, error["param"], error["code"]), (400, "preset", "invalid_sampling"))
        self.assertIn("qa, code, creative, dialogue", error["message"])

    def test_streams_bring_the_same_as_whole_answers(self):
        for fields in ({"messages": LIST}, {"prompt": "List 3 fruits."}):
            fields |= {"temperature": 0, "max_tokens": 60, "baton": {}}
            whole = self.http.complete(**fields)
            chunks = self.http.stream(**fields, stream_options={"include_usage": True})
            choice = whole["choices"][0]
            self.assertEqual(text_of(chunks), choice.get("text") or choice["message"]["content"])
            ids = [i for chunk in chunks for i in chunk.get("baton", {}).get("token_ids", [])]
            self.assertEqual(ids, whole["baton"]["token_ids"])
            self.assertEqual(chunks[-1]["choices"], [])
            usage = {key: whole["usage"][key] for key in ("prompt_tokens", "completion_tokens")}
            self.assertEqual({key: chunks[-1]["usage"][key] for key in usage}, usage)
            self.assertEqual([chunk["usage"] for chunk in chunks[:-1]], [None] * (len(chunks) - 1))
            reasons = [c["finish_reason"] for chunk in chunks for c in chunk["choices"]]
            self.assertEqual(set(reasons[:-1]), {None})
            self.assertEqual(reasons[-1], choice["finish_reason"])
            self.assertEqual(len({chunk["id"] for chunk in chunks}), 1)

    def test_first_chunk_of_a_chat_says_who_speaks(self):
        first = self.http.stream(messages=LIST, max_tokens=2)[0]
        self.assertEqual(first["object"], "chat.completion.chunk")
        self.assertEqual(first["choices"][0]["delta"], {"role": "assistant", "content": ""})

    def test_ends_are_stop_or_length(self):
        answer = self.http.complete(messages=LIST, temperature=0, max_tokens=400)
        self.assertEqual(answer["choices"][0]["finish_reason"], "stop")
        answer = self.http.complete(messages=LIST, temperature=0, max_completion_tokens=3)
        self.assertEqual(answer["choices"][0]["finish_reason"], "length")
        self.assertEqual(answer["usage"]["completion_tokens"], 3)

    def test_stop_strings_end_the_text_before_them(self):
        plain = self.http.complete(messages=LIST, temperature=0)["choices"][0]["message"]["content"]
        stop = plain[5:8]
        fields = {"messages": LIST, "temperature": 0, "baton": {}, "stop": [stop, "never said"]}
        for include in (False, True):
            answer = self.http.complete(**fields, include_stop_str_in_output=include)
            text = plain[:plain.index(stop)] + (stop if include else "")
            self.assertEqual(answer["choices"][0]["message"]["content"], text)
            self.assertEqual(answer["choices"][0]["finish_reason"], "stop")
            self.assertEqual(answer["baton"]["stop_match"], stop)

    def test_ignoring_eos_gives_exactly_so_many_tokens(self):
        for eos in ({"ignore_eos": True}, {"baton": {"eos": "mask"}}, {"baton": {"eos": "continue"}}):
            answer = self.http.complete(messages=LIST, temperature=0, max_tokens=150, **eos)
            self.assertEqual(answer["usage"]["completion_tokens"], 150, eos)
            self.assertEqual(answer["choices"][0]["finish_reason"], "length")
            if "baton" in eos:
                self.assertLess(answer["baton"]["natural_end_step"], 150)

    def test_min_tokens_and_stop_token_ids(self):
        answer = self.http.complete(messages=LIST, temperature=0, max_tokens=100, min_tokens=100)
        self.assertEqual(answer["usage"]["completion_tokens"], 100)
        ids = self.http.complete(messages=LIST, temperature=0, max_tokens=9, baton={})["baton"]["token_ids"]
        answer = self.http.complete(messages=LIST, temperature=0, stop_token_ids=[ids[4]], baton={})
        self.assertEqual(answer["baton"]["token_ids"], ids[:ids.index(ids[4]) + 1])
        self.assertEqual(answer["baton"]["stop_cause"], "token")

    def test_logprobs_of_both_shapes_say_the_same(self):
        fields = {"temperature": 0, "max_tokens": 12, "seed": 1}
        plain = self.http.complete(prompt="Once upon", logprobs=3, **fields)["choices"][0]
        lists = plain["logprobs"]
        self.assertEqual({len(entries) for entries in lists.values()}, {12})
        self.assertEqual("".join(lists["tokens"]), plain["text"])
        self.assertEqual(lists["text_offset"], [len("".join(lists["tokens"][:i])) for i in range(12)])
        for token, logprob, top in zip(lists["tokens"], lists["token_logprobs"], lists["top_logprobs"]):
            self.assertEqual(max(top.values()), logprob)
            self.assertEqual(top[token], logprob)
        chat = self.http.complete(messages=STORY, logprobs=True, top_logprobs=2, **fields)["choices"][0]
        text = b"".join(bytes(entry["bytes"]) for entry in chat["logprobs"]["content"]).decode()
        self.assertEqual(text, chat["message"]["content"])
        self.assertEqual([len(entry["top_logprobs"]) for entry in chat["logprobs"]["content"]], [2] * 12)
        streamed = self.http.stream(messages=STORY, logprobs=True, top_logprobs=2, **fields)
        entries = [entry for chunk in streamed for choice in chunk["choices"]
                   for entry in (choice["logprobs"] or {"content": []})["content"]]
        self.assertEqual([e["token"] for e in entries],
                         [e["token"] for e in chat["logprobs"]["content"]])

    def test_logit_bias_and_penalties_reach_the_sampler(self):
        answer = self.http.complete(prompt="Once", max_tokens=6, logit_bias={"18": 100}, baton={})
        self.assertEqual(answer["baton"]["token_ids"], [18] * 6)
        answer = self.http.complete(prompt="Once", max_tokens=6, logit_bias={"18": 50}, baton={}, temperature=0,
                                    frequency_penalty=1000)
        self.assertEqual(answer["baton"]["token_ids"].count(18), 1)

    def test_the_extension_has_the_rows_of_the_eos_log(self):
        answer = self.http.complete(messages=LIST, temperature=0, request_id="row", baton={
            "eos_steps": True, "predict": True, "tag": "lists"})
        ids, eos = answer["baton"]["token_ids"], answer["baton"]["eos"]
        wait_until(lambda: len(self.cluster.eos_rows("row")) == len(ids), "the rows in the log")
        rows = self.cluster.eos_rows("row")
        self.assertEqual([row["current_token_id"] for row in rows], ids)
        for key in ("step", "eos_rank"):
            self.assertEqual([row[key] for row in rows], [step[key] for step in eos])
        for row, step in zip(rows, eos):
            self.assertAlmostEqual(row["eos_prob"], step["eos_prob"], places=6)
        self.assertTrue(rows[-1]["is_finished"])
        self.assertTrue(answer["baton"]["predictions"])
        self.assertEqual(list(answer["baton"]["predictions"][0]["within"]), ["1", "4", "16", "64", "256"])
        summaries = self.cluster.eos_log.with_name(self.cluster.eos_log.name + ".requests.jsonl")
        lines = [json.loads(line) for line in summaries.read_text().splitlines()]
        self.assertIn(("row", "lists"), [(line["request_id"], line["tag"]) for line in lines])

    def test_predictions_stand_behind_their_tokens(self):
        seen = 0
        foretold = []
        for chunk in self.http.stream(messages=LIST, temperature=0, baton={"predict": True, "predict_every": 2}):
            seen += len(chunk.get("baton", {}).get("token_ids", []))
            if "prediction" in chunk.get("baton", {}):
                self.assertEqual(chunk["baton"]["prediction"]["at_step"], seen)
                foretold.append(seen)
        self.assertTrue(foretold)
        self.assertEqual([step % 2 for step in foretold], [0] * len(foretold))

    def test_without_the_extension_answers_are_openais_alone(self):
        answer = self.http.complete(messages=LIST, max_tokens=3)
        self.assertEqual(list(answer), ["id", "object", "created", "model", "choices", "usage"])
        self.assertEqual(list(answer["choices"][0]), ["index", "message", "logprobs", "finish_reason"])
        self.assertEqual(answer["model"], "demo")

    def test_refusals_name_the_field(self):
        for fields, status, param, code in (
                ({"prompt": "x", "temperature": -1}, 400, "temperature", "invalid_sampling"),
                ({"prompt": "x", "top_p": 0}, 400, "top_p", "invalid_sampling"),
                ({"prompt": "x", "max_tokens": 0}, 400, "max_tokens", "invalid_max_tokens"),
                ({"prompt": "x", "max_tokens": 1 << 20}, 400, "prompt", "context_length_exceeded"),
                ({"prompt": "x " * 9000}, 400, "prompt", "context_length_exceeded"),
                ({"prompt": ""}, 400, "prompt", "empty_prompt"),
                ({"prompt": [1 << 20]}, 400, "prompt", "invalid_token_id"),
                ({"prompt": "x", "logprobs": 21}, 400, "logprobs", "invalid_sampling"),
                ({"messages": []}, 400, "messages", "empty_prompt"),
                ({"messages": LIST, "top_logprobs": 3}, 400, "top_logprobs", "conflicting_options"),
                ({"messages": LIST, "logprobs": True, "top_logprobs": 21}, 400, "top_logprobs", "invalid_sampling"),
                ({"messages": LIST, "max_completion_tokens": 0}, 400, "max_completion_tokens", "invalid_max_tokens"),
                ({"prompt": "x", "guided_choice": []}, 400, "guided_choice", "invalid_guide"),
                ({"messages": LIST, "response_format": {"type": "json_schema", "json_schema": {"schema": {
                    "type": "nope"}}}}, 400, "response_format.json_schema", "invalid_guide"),
                ({"messages": LIST, "tools": [{}]}, 400, "tools", "unsupported_field"),
                ({"prompt": "x", "stop": ["a"], "ignore_eos": True}, 400, "stop", "conflicting_options"),
                ({"prompt": "x", "n": 0}, 400, "n", "invalid_sampling"),
                ({"prompt": "x", "model": "gpt"}, 404, "model", "model_not_found")):
            found, error = self.http.refuse(**fields)
            self.assertEqual((found, error["param"], error["code"]), (status, param, code), error)
            self.assertNotIn("spec.", error["message"])
            self.assertNotIn("output.", error["message"])
            self.assertIn("type", error)

    def test_bodies_that_are_no_requests_are_refused(self):
        for body in (b"", b"{", b"[]", b"null", b'"x"', b'{"prompt":"x"}}', b"\xff", b'{"prompt":"\xff"}',
                     b'{"prompt":"\\ud800"}', b"[" * 100_000, b'{"a":' * 100_000, b'{"prompt":"x","prompt":"y"}',
                     b'{"prompt":NaN}', b'{"prompt":"x","seed":1e999}', b"\x00" * 100):
            status, _, text = self.http.call("POST", "/v1/completions", body)
            self.assertEqual(status, 400, body[:50])
            self.assertEqual(json.loads(text)["error"]["type"], "invalid_request_error")

    def test_text_of_any_kind_comes_back_whole(self):
        for text in ("a\x00b", "häß 🦊 你好", "\u2028 \"\\\n\t", "<|user|>"):
            answer = self.http.complete(prompt=text, max_tokens=30, temperature=2.0, seed=3)
            chunks = self.http.stream(prompt=text, max_tokens=30, temperature=2.0, seed=3)
            self.assertEqual(text_of(chunks), answer["choices"][0]["text"])

    def test_headers_say_what_was_ignored_and_which_request_it_was(self):
        body = {"prompt": "x", "max_tokens": 1, "mood": 1, "user": "me"}
        status, headers, text = self.http.call("POST", "/v1/completions", body, {"X-Request-ID": "trace-me"})
        self.assertEqual(status, 200)
        self.assertEqual(headers["baton-ignored-fields"], "mood")
        self.assertEqual(headers["x-request-id"], "trace-me")
        self.assertEqual(json.loads(text)["id"], "cmpl-trace-me")

    def test_models_and_health(self):
        status, models = self.http.get("/v1/models")
        self.assertEqual((status, [model["id"] for model in models["data"]]), (200, ["demo"]))
        self.assertEqual(self.http.get("/v1/models/demo"), (200, models["data"][0]))
        self.assertEqual(self.http.get("/v1/models/gpt")[0], 404)
        self.assertEqual(self.http.get("/health")[0], 200)
        self.assertEqual(self.http.get("/v1/engines")[0], 404)
        self.assertEqual(self.http.call("GET", "/v1/completions")[0], 405)

    def test_bodies_may_come_in_pieces(self):
        body = json.dumps({"prompt": "Once", "max_tokens": 2}).encode()
        with Raw(self.http.address) as raw:
            raw.send(head("/v1/completions", None, "Transfer-Encoding: chunked"))
            for at in range(0, len(body), 7):
                piece = body[at:at + 7]
                raw.send(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            raw.send(b"0\r\n\r\n")
            self.assertIn(b"200 OK", raw.read_until(b"\r\n\r\n"))
        with Raw(self.http.address) as raw:  # one that ends in the middle
            raw.send(head("/v1/completions", len(body)) + body[:10])
        with Raw(self.http.address) as raw:  # two at once
            raw.send((head("/v1/completions", len(body)) + body) * 2)
            data = raw.read_until(b'"total_tokens"')
            self.assertIn(b"200 OK", data)
            data = data.rpartition(b'"total_tokens"')[2] + raw.read_until(b'"total_tokens"')
            self.assertIn(b"200 OK", data)

    def test_a_client_that_goes_frees_everything(self):
        aborted = self.cluster.router.metrics().sum("baton_request_failure_total", finished_reason="abort")
        for stream in (True, False):
            body = json.dumps({"prompt": "Once", "max_tokens": 1500, "ignore_eos": True, "stream": stream}).encode()
            with Raw(self.http.address) as raw:
                raw.send(head("/v1/completions", len(body)) + body)
                if stream:
                    self.assertIn(b"data: ", raw.read_until(b"\n\n"))
                else:
                    wait_until(lambda: self.cluster.router.metrics().sum("baton_requests_inflight") == 1,
                               "the request on its way")
        wait_until(lambda: self.cluster.router.metrics().sum(
            "baton_request_failure_total", finished_reason="abort") == aborted + 2, "both to be aborted")

    def test_many_at_once_answer_each_its_own(self):
        expected = {n: self.http.complete(messages=STORY, seed=n, max_tokens=40) for n in range(4)}
        found = {}

        def ask(index):
            found[index] = text_of(self.http.stream(messages=STORY, seed=index % 4, max_tokens=40))

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(32)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for index, text in found.items():
            self.assertEqual(text, expected[index % 4]["choices"][0]["message"]["content"])
        self.assertEqual(len(found), 32)

    def test_the_load_generator_finds_exact_lengths(self):
        with tempfile.TemporaryDirectory(prefix="baton-bench-") as folder:
            out = pathlib.Path(folder) / "result.json"
            made = subprocess.run(
                [BIN / "baton", "bench", "--protocol", "openai", "--server", self.http.address,
                 "--tokenizer", DEMO_MODEL, "--requests", "60", "--concurrency", "20", "--eos", "continue",
                 "--input-tokens", "32", "--output-tokens", "48", "--runs", "1", "--out", out],
                capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=3 * PATIENCE_S, check=False)
            self.assertEqual(made.returncode, 0, made.stderr)
            result = json.loads(out.read_text())
        self.assertEqual((result["completed"], result["failed"]), (60, 0))
        self.assertEqual(result["output_lens"], [48] * 60)
        self.assertEqual(result["total_input_tokens"], 60 * 32)

    def test_requests_are_counted_by_transport(self):
        before = self.cluster.router.metrics().sum("baton_requests_received_total", transport="http")
        self.http.complete(prompt="x", max_tokens=1)
        self.http.refuse(prompt="")
        after = self.cluster.router.metrics().sum("baton_requests_received_total", transport="http")
        self.assertEqual(after - before, 2)


class KeysTest(unittest.TestCase):
    def test_keys_guard_everything_but_health(self):
        keys = "alice:sk-alice\n"
        with Cluster(prefill=0) as cluster:
            path = cluster.path / "keys"
            path.write_text(keys)
            cluster.router_flags = ["--http-port", "0", "--api-keys", path]
            router = cluster.spawn_router("guarded").wait_ready()
            try:
                cluster.wait_routable(router)
                address = router.ready["http"]
                for wrong in (None, "sk-bob"):
                    http = Http(address, key=wrong)
                    status, headers, text = http.call("POST", "/v1/completions", {"prompt": "x"})
                    self.assertEqual(status, 401)
                    self.assertEqual(json.loads(text)["error"]["type"], "authentication_error")
                    self.assertEqual(headers["www-authenticate"], "Bearer")
                    self.assertEqual(http.get("/v1/models")[0], 401)
                    self.assertEqual(http.get("/health")[0], 200)
                http = Http(address, key="sk-alice")
                answer = http.complete(prompt="x", max_tokens=2, min_tokens=2)
                self.assertEqual(answer["usage"]["completion_tokens"], 2)
                tokens = router.metrics().sum("baton_tenant_generation_tokens_total", tenant="alice")
                self.assertEqual(tokens, 2)
            finally:
                router.kill()


if __name__ == "__main__":
    unittest.main()
