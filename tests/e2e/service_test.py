"""The service as a user meets it: answers, refusals, pages, the README's call."""

import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest
import urllib.error

import grpc

import client
from cluster import BIN, DEMO_MODEL, ROOT, Cluster, wait_until

STORY = {"messages": [{"role": "user", "content": "Tell me a story about a fox."}]}


class ServiceTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        often = ["--log-stats-interval", "200ms"]
        cls.cluster = Cluster(flags=often, router_flags=often)
        cls.cluster.__enter__()
        cls.client = client.Client(cls.cluster.router.grpc)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.cluster.__exit__(None, None, None)

    def tearDown(self):
        self.cluster.assert_nothing_held()

    def refused(self, request, code, reason, method="Generate"):
        with self.assertRaises(grpc.RpcError) as caught:
            list(self.client.stream(f"baton.v1.InferenceService/{method}", request))
        self.assertEqual(caught.exception.code(), code, caught.exception.details())
        self.assertEqual(client.reason_of(caught.exception), reason, caught.exception.details())
        return caught.exception

    def test_demo_prompts_end_by_themselves(self):
        answers = self.cluster.generate(
            [{**STORY, "request_id": "a"},
             {"request_id": "b", "messages": [{"role": "user", "content": "List 5 animals."}]}],
            "--chat", "--max-tokens", "600", "--temperature", "0", "--eos-steps")
        for answer in answers:
            self.assertEqual(answer["finish_reason"], "stop_eos", answer)
            self.assertEqual(answer["stop_cause"], "eos")
            self.assertEqual(answer["attempts"], 1)
            self.assertEqual(answer["usage"]["completion_tokens"], len(answer["token_ids"]))
            self.assertEqual([row["step"] for row in answer["eos"]],
                             list(range(1, len(answer["token_ids"]) + 1)))
            self.assertTrue(answer["workers"]["prefill"])
            self.assertTrue(answer["text"].strip())
        self.assertEqual(sum(line.lstrip()[:1].isdigit() for line in answers[1]["text"].splitlines()), 5)

    def test_readme_call_in_another_language(self):
        readme = (ROOT / "README.md").read_text()
        body, method = re.search(r"grpcurl -plaintext -d '([^']+)' \S+ (\S+)", readme).groups()
        request = json.loads(body)
        request["spec"]["stop"].update(max_tokens=12, eos_policy="EOS_POLICY_IGNORE_MASK")
        self.assertTrue(list(self.client.stream(method, json.loads(body)))[-1].final.attempts)
        events = list(self.client.stream(method, request))
        self.assertEqual(events[0].WhichOneof("event"), "started")
        self.assertEqual(events[-1].WhichOneof("event"), "final")
        deltas = [event.delta for event in events[1:-1]]
        self.assertEqual(sum(len(delta.token_ids) for delta in deltas), 12)
        self.assertEqual([step.step for delta in deltas for step in delta.eos_steps],
                         list(range(1, 13)))
        self.assertEqual(events[-1].final.finish_reason, 5)  # FINISH_REASON_LENGTH
        self.assertEqual(events[-1].final.usage.completion_tokens, 12)

    def test_once_equals_the_stream(self):
        request = {"text": "Once upon a time", "spec": {
            "sampling": {"seed": "7", "temperature": 0.8}, "stop": {"maxTokens": 30}}}
        streamed = [t for e in self.client.generate(request) for t in e.delta.token_ids]
        once = self.client.unary("baton.v1.InferenceService/GenerateOnce", request)
        self.assertEqual(list(once.output.token_ids), streamed)

    def test_tokenize_and_back(self):
        text = "Once upon a time, a fox — ünïcödé 🦊."
        ids = self.client.unary("baton.v1.InferenceService/Tokenize", {"text": text}).token_ids
        answer = self.client.unary("baton.v1.InferenceService/Detokenize", {"tokenIds": list(ids)})
        self.assertEqual(answer.text, text)

    def test_model_info(self):
        info = self.client.unary("baton.v1.ModelService/GetModelInfo", {})
        self.assertEqual(info.name, "demo")
        self.assertEqual(info.architecture, "LlamaForCausalLM")
        self.assertTrue(info.eos_tokens and info.eos_tokens[0].sources)
        self.assertTrue(info.chat_template_present)
        self.assertGreater(info.kv_blocks, 0)

    def test_bad_requests_are_refused_with_reasons(self):
        invalid = grpc.StatusCode.INVALID_ARGUMENT
        cases = [
            ({"text": ""}, invalid, "EMPTY_PROMPT"),
            ({}, invalid, "EMPTY_PROMPT"),
            ({"tokenIds": {"ids": []}}, invalid, "EMPTY_PROMPT"),
            ({"text": "a " * 100000}, invalid, "TOO_LONG"),
            ({"text": "a", "spec": {"model": "nope"}}, grpc.StatusCode.NOT_FOUND, "MODEL_NOT_FOUND"),
            ({"tokenIds": {"ids": [5, 999999]}}, invalid, "INVALID_TOKEN_ID"),
            ({"tokenIds": {"ids": [-1]}}, invalid, "INVALID_TOKEN_ID"),
            ({"text": "a", "spec": {"stop": {"maxTokens": 0}}}, invalid, "INVALID_MAX_TOKENS"),
            ({"text": "a", "spec": {"stop": {"maxTokens": -3}}}, invalid, "INVALID_MAX_TOKENS"),
            ({"text": "a", "spec": {"stop": {"maxTokens": 4, "stop": ["x"],
                                             "eosPolicy": "EOS_POLICY_IGNORE_MASK"}}},
             invalid, "CONFLICTING_OPTIONS"),
            ({"text": "a", "spec": {"stop": {"maxTokens": 4, "stopTokenIds": [5],
                                             "eosPolicy": "EOS_POLICY_IGNORE_CONTINUE"}}},
             invalid, "CONFLICTING_OPTIONS"),
        ]
        for field, value in [("temperature", -1), ("temperature", "NaN"), ("temperature", "Infinity"),
                             ("topP", 0), ("topP", 1.5), ("topK", -1), ("minP", -0.1), ("minP", 2),
                             ("repetitionPenalty", 0), ("presencePenalty", "NaN")]:
            cases.append(({"text": "a", "spec": {"sampling": {field: value}}}, invalid,
                          "INVALID_SAMPLING"))
        unimplemented = grpc.StatusCode.UNIMPLEMENTED
        for spec in ({"guidedJson": "{"}, {"guidedRegex": "("}, {"guidedChoice": [""]},
                     {"guidedGrammar": "begin: 'a'"}):
            cases.append(({"text": "a", "spec": spec}, invalid, "INVALID_GUIDE"))
        cases.append(({"text": "a", "spec": {"sampling": {"beamWidth": 400}}}, invalid, "LIMIT_EXCEEDED"))
        cases.append(({"text": "a", "spec": {"sampling": {"beamWidth": 4, "topK": 3}}}, invalid, "CONFLICTING_OPTIONS"))
        cases.append(({"text": "a", "spec": {"priority": 1}}, unimplemented, "UNSUPPORTED_FIELD"))
        for request, code, reason in cases:
            with self.subTest(request=str(request)[:80]):
                self.refused(request, code, reason)

    def test_a_failed_request_has_the_id_that_logs_know(self):
        answer = self.cluster.generate([{"prompt": "a", "max_tokens": 99999}], check=False)[0]
        self.assertEqual(answer["error"]["reason"], "TOO_LONG")
        self.assertIn(answer["request_id"], self.cluster.router.tail())

    def test_a_message_over_the_limit_is_refused(self):
        with self.assertRaises(grpc.RpcError) as caught:
            list(self.client.generate({"text": "a" * (20 << 20)}))
        self.assertEqual(caught.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)

    def test_cancel_frees_everything(self):
        call = self.client.generate({"text": "Once upon a time", "spec": {
            "stop": {"maxTokens": 1500, "eosPolicy": "EOS_POLICY_IGNORE_MASK"}}})
        next(call)
        next(call)
        before = self.cluster.router.metrics().sum(
            "baton_request_failure_total", finished_reason="abort")
        call.cancel()
        wait_until(lambda: self.cluster.router.metrics().sum(
            "baton_request_failure_total", finished_reason="abort") == before + 1, "the abort")

    def test_a_deadline_ends_the_request(self):
        with self.assertRaises(grpc.RpcError) as caught:
            list(self.client.generate({"text": "Once upon a time", "spec": {
                "stop": {"maxTokens": 1900, "eosPolicy": "EOS_POLICY_IGNORE_MASK"}}}, timeout_s=0.2))
        self.assertEqual(caught.exception.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
        wait_until(lambda: self.cluster.router.metrics().sum(
            "baton_request_failure_total", finished_reason="deadline") >= 1, "the deadline counted")

    def test_stop_string_cuts_the_text_and_the_bill(self):
        request = {"text": "Once upon a time", "request_id": "plain", "temperature": 0,
                   "max_tokens": 40}
        request["prompt"] = request.pop("text")
        plain = self.cluster.generate([request])[0]
        word = plain["text"].split()[4]
        cut = self.cluster.generate([{**request, "request_id": "cut", "stop": [word]}])[0]
        self.assertEqual(cut["finish_reason"], "stop_string")
        self.assertEqual(cut["text"], plain["text"][:plain["text"].index(word)])
        self.assertEqual(cut["token_ids"], plain["token_ids"][:len(cut["token_ids"])])
        self.assertLess(cut["usage"]["completion_tokens"], plain["usage"]["completion_tokens"])

    def test_pages(self):
        listed = json.loads(subprocess.check_output([str(BIN / "baton"), "metrics", "list", "--json"]))
        for process in self.cluster.processes():
            page = process.get("/metrics")
            self.assertEqual({line.split()[2] for line in page.splitlines() if line.startswith("# TYPE")},
                             {metric["name"] for metric in listed
                              if process.ready["role"] in metric["owners"]}, process.name)
            checked = subprocess.run(["promtool", "check", "metrics"], input=page, text=True,
                                     capture_output=True, check=False)
            self.assertEqual(checked.returncode, 0, f"{process.name}: {checked.stdout}{checked.stderr}")
            self.assertTrue(process.get("/healthz"))
            self.assertTrue(process.get("/readyz"))
            self.assertEqual(process.metrics().sum("baton_server_state", state="ready"), 1)

    def test_the_queries_of_the_metrics_page_find_series(self):
        queries = re.findall(r"```promql\n(.*)\n```", (ROOT / "docs" / "metrics.md").read_text())
        self.assertGreaterEqual(len(queries), 10)
        series = [one for process in self.cluster.processes() for one in process.metrics().series]
        for query in queries:
            for name, matchers in re.findall(r"(baton_\w+)(?:\{([^}]*)\})?", query):
                wanted = re.findall(r'(\w+)=~?"([^"]*)"', matchers)
                self.assertTrue(any(
                    have == name and all(re.fullmatch(value, labels.get(label, "")) for label, value in wanted)
                    for have, labels, _ in series), f"{name}{{{matchers}}} of {query}")

    def test_the_log_tells_the_load_until_there_is_none(self):
        self.cluster.generate([{"prompt": "Once upon a time"}], "--max-tokens", "40")
        for process in self.cluster.processes():
            wait_until(lambda p=process: "load: idle" in p.tail(), f"{process.name} to be idle")
        self.assertIn(" requests answered, ", self.cluster.router.tail())
        self.assertIn("KV cache ", self.cluster.decode[0].tail())

    def test_probe(self):
        for process in self.cluster.processes():
            result = subprocess.run([str(BIN / "baton"), "probe", process.grpc], check=False)
            self.assertEqual(result.returncode, 0, process.name)
        closed = subprocess.run([str(BIN / "baton"), "probe", "127.0.0.1:1"], check=False,
                                capture_output=True)
        self.assertEqual(closed.returncode, 1)


class LocalPrefillTest(unittest.TestCase):
    """--local-prefill-below counts what the decode worker does not hold yet."""

    def test_a_repeated_long_prompt_stays_at_its_decode_worker(self):
        prompt = "Once upon a time there was a fox who lived in a wood. " * 12

        with Cluster(router_flags=["--local-prefill-below", "40"]) as cluster:
            def ask(text, salt=""):
                request = {"text": text, "spec": {"sampling": {"seed": "5"}, "stop": {"maxTokens": 8},
                                                  "cacheSalt": salt}}
                answer = caller.unary("baton.v1.InferenceService/GenerateOnce", request)
                return list(answer.output.token_ids), answer.final

            caller = client.Client(cluster.router.grpc)
            first_ids, first = ask(prompt)
            self.assertTrue(first.prefill_worker)
            again_ids, again = ask(prompt)
            self.assertFalse(again.prefill_worker, "the decode worker holds it")
            self.assertEqual(again_ids, first_ids)
            self.assertGreater(again.usage.cached_tokens, again.usage.prompt_tokens - 40)
            for text, what in [(prompt + "It slept.", "held and a bit"), ("A fox", "short")]:
                self.assertFalse(ask(text)[1].prefill_worker, what)
            self.assertTrue(ask(prompt, "tenant")[1].prefill_worker, "another salt, another cache")
            caller.close()
            cluster.assert_nothing_held()


class StartTest(unittest.TestCase):
    """What goes wrong at start ends with its own exit code and a line that helps."""

    def start(self, name, *arguments):
        return subprocess.run([str(BIN / name), *map(str, arguments)], capture_output=True, text=True,
                              timeout=60, check=False)

    def test_exit_codes(self):
        cases = [
            ("baton-decode", ["/nonexistent"], 3),
            ("baton-decode", [], 2),
            ("baton-prefill", ["/nonexistent", "--no-such-flag"], 2),
            ("baton-router", ["/nonexistent", "--decode-workers", "127.0.0.1:1"], 3),
            ("baton-router", ["/nonexistent", "--decode-workers", "no-port"], 2),
            ("baton-router", ["/nonexistent", "--decode-workers", "127.0.0.1:1", "--port", "0", "--admin-port", "0",
                              "--api-keys", "/nonexistent"], 2),
            ("baton", ["serve"], 2),
            ("baton", ["generate", "--prompts", "/"], 2),
            ("baton", ["nonsense"], 2),
            ("baton", ["generate", "--server", "127.0.0.1:1", "--prompt", "x"], 1),
            ("baton", ["model", "inspect", "/nonexistent"], 3),
        ]
        for name, arguments, code in cases:
            with self.subTest(name=name, arguments=arguments):
                result = self.start(name, *arguments)
                self.assertEqual(result.returncode, code, result.stderr)
                last = result.stderr.strip().splitlines()[-1]
                self.assertRegex(last, "fatal: .*: .* Try: ." if code > 1 else ".")

    def test_advertised_addresses_stand_in_the_ready_lines(self):
        with Cluster(prefill=0, decode=1) as cluster:
            spare = cluster.spawn_worker("decode", extra=["--advertise", "decode.example:7001"])
            self.assertEqual(spare.wait_ready().grpc, "decode.example:7001")
            cluster.decode.remove(spare)
            cluster.router_flags = ["--advertise", "[fd00::1]:7000"]
            router = cluster.spawn_router("advertised").wait_ready()
            self.assertEqual(router.grpc, "[fd00::1]:7000")
            for process in (spare, router):
                self.assertEqual(process.terminate(), 0)
        for wrong in ("example", "example:0", "http://example:7000", ":7000", "example:x"):
            result = self.start("baton-decode", DEMO_MODEL, "--advertise", wrong)
            self.assertEqual(result.returncode, 2, wrong)
            self.assertIn("expected host:port", result.stderr)

    def test_port_in_use(self):
        with Cluster(prefill=0) as cluster:
            port = cluster.decode[0].grpc.rsplit(":", 1)[1]
            result = self.start("baton-decode", cluster.model, "--port", port, "--admin-port", "0",
                                "--kv-cache-memory", "16MiB")
            self.assertEqual(result.returncode, 5, result.stderr)
            self.assertIn(port, result.stderr)

    def test_versions_and_metrics_list(self):
        version = json.loads(self.start("baton", "version", "--json").stdout)
        self.assertIn("version", version)
        metrics = json.loads(self.start("baton", "metrics", "list", "--json").stdout)
        self.assertGreater(len(metrics), 20)


class WhoIsWhoTest(unittest.TestCase):
    """A router tells workers that are not its own from those that are, and says what differs."""

    def second_router(self, cluster, what):
        """Starts it and waits until its log says `what`; it must not become ready."""
        router = cluster.spawn_router("second").wait_ready()
        try:
            wait_until(lambda: what in router.log.read_text(), f"'{what}' in its log")
            with self.assertRaises(urllib.error.HTTPError):
                router.get("/readyz")
            # Whoever else says whether it is ready says the same.
            self.assertIs(router.ready["ready"], False)
            self.assertEqual(router.metrics().sum("baton_server_state", state="ready"), 0)
            self.assertEqual(router.metrics().sum("baton_server_state", state="unhealthy"), 1)
            probe = subprocess.run([str(BIN / "baton"), "probe", router.grpc], capture_output=True,
                                   text=True, check=False)
            self.assertEqual((probe.returncode, probe.stdout), (1, "NOT_SERVING\n"))
            return router.log.read_text()
        finally:
            router.kill()

    def test_a_tokenizer_with_two_ids_swapped_is_refused(self):
        with Cluster(prefill=0) as cluster, tempfile.TemporaryDirectory() as folder:
            shutil.copytree(DEMO_MODEL, folder, dirs_exist_ok=True)
            path = pathlib.Path(folder) / "tokenizer.json"
            tokenizer = json.loads(path.read_text())
            vocab = tokenizer["model"]["vocab"]
            first, second = sorted(vocab, key=vocab.get)[300:302]
            vocab[first], vocab[second] = vocab[second], vocab[first]
            path.write_text(json.dumps(tokenizer))
            cluster.model = folder
            log = self.second_router(cluster, "gets no requests")
            self.assertRegex(log, "text fingerprint [0-9a-f]{32}, this router has [0-9a-f]{32}")

    def test_a_prefill_worker_in_the_list_of_decode_workers_is_refused(self):
        with Cluster() as cluster:
            right, cluster.decode = cluster.decode, cluster.prefill
            log = self.second_router(cluster, "gets no requests")
            self.assertIn("it serves prefill, not decode; correct --decode-workers", log)
            cluster.decode = right


if __name__ == "__main__":
    unittest.main()
