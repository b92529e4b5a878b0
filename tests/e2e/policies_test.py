"""The workers' policies on a service: they change who runs when, and never a token; nobody starves under any of them."""

import json
import subprocess
import threading
import time
import unittest

from cluster import BIN, DEMO_MODEL, PATIENCE_S, Cluster, Failure, wait_until
from overload_bench import Figures
from predict_test import logs_of, requests

POLICIES = ("fcfs", "past-future", "remaining", "boost")
OTHERS = POLICIES[1:]
# So few blocks that sequences wait for them and are preempted.
SMALL = ["--max-num-seqs", "16", "--kv-cache-tokens", "512"]
# A slower device: else the demo model is done before a worker is killed, and clients are what is waited for.
SLOWER = {"decode_flags": ["--enable-failpoints", "--log-level", "error"],
          "worker_environment": {"BATON_FAILPOINT": "stepping:delay_ms=3"}}


def told(answers):
    """What a client gets of each answer, without when and where."""
    return [[answer[key] for key in ("token_ids", "text", "finish_reason", "stop_cause")] for answer in answers]


class SameAnswersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.made = requests(120)
        cls.expected, cls.expected_rows, _ = cls.ask("fcfs", 0, "--predictor", "off")

    @classmethod
    def ask(cls, policy, prefill, *flags):
        with Cluster(prefill=prefill, flags=[*SMALL, "--policy", policy, *flags]) as cluster:
            answers = cluster.generate(cls.made, "--chat", concurrency=32)
            rows = logs_of(cluster, [request["request_id"] for request in cls.made])
            cluster.assert_nothing_held()
            for worker in cluster.prefill:
                shown = worker.metrics()
                assert shown.sum("baton_config_info", policy="fcfs") == 1, "a prefill worker knows nothing to choose by"
            return told(answers), rows, cluster.decode[0].metrics()

    def check(self, policy, prefill, *flags):
        answers, rows, figures = self.ask(policy, prefill, *flags)
        self.assertEqual(answers, self.expected)
        self.assertEqual(rows, self.expected_rows)
        self.assertEqual(figures.sum("baton_config_info", policy=policy), 1)
        return figures.sum("baton_num_preemptions_total")

    def test_answers_ends_and_rows_are_those_of_fcfs(self):
        preemptions = 0
        for policy in OTHERS:
            for prefill, flags in ((0, ()), (1, ("--predictor", "off"))):
                with self.subTest(policy=policy, prefill=prefill):
                    preemptions += self.check(policy, prefill, *flags)
        self.assertGreater(preemptions, 0, "a run without a preemption proves nothing of preemptions")

    def test_a_worker_that_dies_costs_no_token(self):
        for policy in OTHERS:
            flags = [*SMALL, "--policy", policy]
            with self.subTest(policy=policy), Cluster(prefill=0, decode=2, flags=flags, **SLOWER) as cluster:
                answers = []
                asking = threading.Thread(target=lambda: answers.extend(
                    cluster.generate(self.made, "--chat", concurrency=32)))
                asking.start()
                wait_until(lambda: cluster.decode[0].metrics().sum("baton_num_requests_running") > 4, "load")
                cluster.decode[0].kill()
                asking.join()
                self.assertTrue(any(answer["attempts"] > 1 for answer in answers))
                self.assertEqual(told(answers), self.expected)


class FairnessTest(unittest.TestCase):
    WARM, MEASURED = 4000, 16000  # tokens as tenants are charged for them

    @staticmethod
    def load(cluster, tenant, output_tokens):
        """Twelve clients of a tenant, until they are ended."""
        return subprocess.Popen(
            [BIN / "baton", "bench", "--server", cluster.router.grpc, "--as-tenant", tenant, "--runs", "1", "--eos",
             "mask", "--concurrency", "12", "--requests", "100000", "--input-tokens", "16", "--output-tokens",
             str(output_tokens)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    @staticmethod
    def served(cluster):
        counts = {"baton_tenant_prompt_tokens_total": 1, "baton_tenant_generation_tokens_total": 2}
        tokens = {"heavy": 0, "light": 0}
        for name, labels, value in cluster.router.metrics().series:
            if labels.get("tenant") in tokens:
                tokens[labels["tenant"]] += counts.get(name, 0) * value
        return tokens

    def share(self, policy):
        """The part of all tokens that goes to a tenant of three times the weight, whose answers are the long ones."""
        tenants = ["--trust-tenant-header", "--tenant", "heavy:weight=3", "--tenant", "light:weight=1"]
        with Cluster(prefill=0, flags=["--max-num-seqs", "8", "--kv-cache-tokens", "512", "--policy", policy],
                     router_flags=tenants, eos_log=False, **SLOWER) as cluster:
            loads = [self.load(cluster, "heavy", 96), self.load(cluster, "light", 12)]
            try:
                seen = []
                for tokens in (self.WARM, self.MEASURED):
                    aim = tokens + (sum(seen[0].values()) if seen else 0)
                    wait_until(lambda: sum(self.served(cluster).values()) > aim, f"{aim} tokens")
                    seen.append(self.served(cluster))
            finally:
                for load in loads:
                    load.kill()
                    load.wait()
            got = {tenant: seen[1][tenant] - seen[0][tenant] for tenant in seen[0]}
            return got["heavy"] / sum(got.values())

    def test_tenants_get_tokens_by_their_weights(self):
        for policy in ("remaining", "boost"):
            with self.subTest(policy=policy):
                self.assertAlmostEqual(self.share(policy), 0.75, delta=0.1)


class StarvationTest(unittest.TestCase):
    SEATS, STEPS = 4, 1200  # places, tokens of a long answer
    SHORT, CLIENTS = 4, 24  # tokens of a short one, who sends these
    LONG = ("long0", "long1", "long2")

    def long_ones(self, policy):
        """Three long requests beside an endless stream of short ones: the summaries of all, and the long ones' ids."""
        flags = ["--max-num-seqs", str(self.SEATS), "--kv-cache-tokens", "1408", "--policy", policy]
        made = [{"request_id": name, "prompt": "Once", "eos": "mask", "max_tokens": self.STEPS} for name in self.LONG]
        with Cluster(prefill=0, flags=flags) as cluster:
            stream = subprocess.Popen(
                [BIN / "baton", "bench", "--server", cluster.router.grpc, "--runs", "1", "--eos", "mask", "--concurrency",
                 str(self.CLIENTS), "--requests", "100000", "--input-tokens", "8", "--output-tokens", str(self.SHORT)],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                wait_until(lambda: cluster.router.metrics().sum("baton_requests_received_total") > 50, "the stream")
                answers = cluster.generate(made, concurrency=len(made))
                self.assertIsNone(stream.poll(), "the short requests did not end before the long ones")
            finally:
                stream.kill()
                stream.wait()
            self.assertEqual([len(answer["token_ids"]) for answer in answers], [self.STEPS] * len(made))
            cluster.assert_nothing_held()
            cluster.router.terminate()
            log = cluster.eos_log.with_name(cluster.eos_log.name + ".requests.jsonl")
            return [json.loads(line) for line in log.read_text().splitlines()]

    @staticmethod
    def overtaken(rows, request_id, by):
        """How many came later than this request and had sooner what `by` says: the first token, or all."""
        came = {row["request_id"]: row["timestamp"] for row in rows if row["error"] is None}
        got = {row["request_id"]: row["timestamp"] + row["timings_ms"][by] / 1e3 for row in rows
               if row["error"] is None}
        return sum(came[other] > came[request_id] and at < got[request_id] for other, at in got.items())

    def test_long_requests_begin_and_end_beside_an_endless_stream_of_short_ones(self):
        # Who came first has its row in every step, and is never preempted. So at worst a request waits while those that
        # came before it run one after the other, and of those behind it only so many end meanwhile as the other places
        # can take.
        most = len(self.LONG) * self.STEPS * (self.SEATS - 1) // self.SHORT + self.CLIENTS
        for policy in POLICIES:
            with self.subTest(policy=policy):
                rows = self.long_ones(policy)
                began = [self.overtaken(rows, name, "ttft") for name in self.LONG]
                ended = [self.overtaken(rows, name, "total") for name in self.LONG]
                by_age = policy in ("fcfs", "past-future")
                self.assertLessEqual(max(began), self.CLIENTS if by_age else most)
                self.assertLessEqual(max(ended), most)


class FlagsTest(unittest.TestCase):
    def run_tool(self, *arguments):
        return subprocess.run([*map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE_S, check=False)

    def refused(self, *arguments):
        done = self.run_tool(*arguments)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        return done.stderr

    def test_an_unknown_policy_is_refused_with_the_names_there_are(self):
        for command in ([BIN / "baton-decode", DEMO_MODEL], [BIN / "baton-prefill", DEMO_MODEL],
                        [BIN / "baton", "serve", DEMO_MODEL]):
            error = self.refused(*command, "--policy", "shortest")
            for name in POLICIES:
                self.assertIn(name, error)

    def test_an_option_of_another_policy_is_refused(self):
        error = self.refused(BIN / "baton-decode", DEMO_MODEL, "--policy-quantile", "0.9")
        self.assertIn("past-future", error)
        self.refused(BIN / "baton", "serve", DEMO_MODEL, "--policy", "remaining", "--policy-quantile", "0.9")
        self.refused(BIN / "baton-decode", DEMO_MODEL, "--policy", "past-future", "--policy-quantile", "1.5")

    def test_the_settings_in_force_are_shown(self):
        for command in ("decode", "prefill", "serve"):
            shown = self.run_tool(BIN / "baton", "config", "print", command, DEMO_MODEL, "--policy", "remaining")
            self.assertRegex(shown.stdout, r'(?m)^policy = "remaining" +# command line$', shown.stderr)


if __name__ == "__main__":
    unittest.main()
