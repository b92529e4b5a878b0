"""`baton bench` as a user meets it: against a real service and other servers, with faults, with wrong
input."""

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

from cluster import BIN, DEMO_MODEL, PATIENCE_S, Cluster, wait_until

FAKE_OPENAI = os.environ.get("BATON_FAKE_OPENAI", BIN.parent / "tests/baton_fake_openai")
SMALL = ("--input-tokens", "32", "--output-tokens", "16", "--runs", "1")


class Bench:
    """One `baton bench` in a folder of its own, with result.json and rows.jsonl."""

    def __init__(self, *arguments, environment=None, full_disk=False):
        self.folder = tempfile.TemporaryDirectory(prefix="baton-bench-")
        self.path = pathlib.Path(self.folder.name)
        if full_disk:  # where the result is written before it gets its name
            (self.path / "result.json.tmp").symlink_to("/dev/full")
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", str(BIN / "baton"), "bench", *map(str, arguments),
             "--out", str(self.path / "result.json"), "--rows", str(self.path / "rows.jsonl")],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, **(environment or {})})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        self.folder.cleanup()

    def finish(self):
        out, err = self.process.communicate(timeout=3 * PATIENCE_S)
        return self.process.returncode, out, err

    def result(self):
        return json.loads((self.path / "result.json").read_text())

    def rows(self):
        return [json.loads(line) for line in (self.path / "rows.jsonl").read_text().splitlines()]


def bench(*arguments):
    """(exit code, stdout, stderr) of a run that leaves no files."""
    made = subprocess.run([str(BIN / "baton"), "bench", *map(str, arguments)], text=True,
                          capture_output=True, stdin=subprocess.DEVNULL, timeout=3 * PATIENCE_S)
    return made.returncode, made.stdout, made.stderr


class BenchTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(router_flags=["--http-port", "0"])
        cls.cluster.__enter__()
        cls.server = ("--server", cls.cluster.router.grpc)

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__(None, None, None)

    def tearDown(self):
        self.cluster.assert_nothing_held()

    def answered(self):
        return self.cluster.router.metrics().sum("baton_request_success_total")

    def test_open_loop_gives_figures_under_vllms_names(self):
        with Bench(*self.server, "--rate", 50, "--requests", 100, "--eos", "mask", "--slo",
                   "ttft=60s", *SMALL) as run:
            code, out, err = run.finish()
            self.assertEqual(code, 0, err)
            result, rows = run.result(), run.rows()
        self.assertIn("100 of 100 requests completed: 100 length", out)
        self.assertEqual((result["completed"], result["failed"]), (100, 0))
        self.assertEqual(result["total_input_tokens"], 3200)
        self.assertEqual(result["total_output_tokens"], 1600)
        for name in ("request_throughput", "output_throughput", "mean_ttft_ms", "median_tpot_ms",
                     "p99_itl_ms", "p99_e2el_ms", "request_goodput"):
            self.assertGreater(result[name], 0, name)
        self.assertEqual(result["output_lens"], [16] * 100)
        self.assertIsNone(result["void"])
        requests = [row for row in rows if "chunks" in row]
        self.assertEqual(len(requests), 100)
        self.assertEqual({row["prompt_tokens"] for row in requests}, {32})

    def test_the_same_seed_makes_the_same_plan(self):
        plans = []
        for _ in range(2):
            with Bench(*self.server, "--rate", 200, "--requests", 20, "--input-tokens", "8:64",
                       "--output-tokens", "4:16", "--runs", "1", "--seed", 5) as run:
                self.assertEqual(run.finish()[0], 0)
                requests = [row for row in run.rows() if "chunks" in row]
            plans.append([(row["scheduled"], row["planned_prompt_tokens"], row["max_tokens"])
                          for row in requests])
            # The second run must not find the first one's prompts in the prefix cache.
            self.assertEqual({row["cached_tokens"] for row in requests}, {0})
        self.assertEqual(plans[0], plans[1])

    def test_natural_and_forced_ends_side_by_side(self):
        prompts = DEMO_MODEL / "prompts.jsonl"
        with Bench(*self.server, "--concurrency", 4, "--runs", 1, "--eos", "both", "--prompts", prompts,
                   "--output-tokens", 300) as run:
            code, out, err = run.finish()
            self.assertEqual(code, 0, err)
            result = run.result()
        lines = len(prompts.read_text().splitlines())
        self.assertEqual(result["runs"][0]["whole_run"]["finish_reasons"], {"stop_eos": lines})
        self.assertEqual(result["eos_compare"]["forced"]["mean_output_len"], 300)
        self.assertLess(result["eos_compare"]["natural"]["mean_output_len"], 150)
        self.assertNotIn("hardly", out + err)

    def test_over_http_every_token_arrives_eos_too(self):
        http = self.cluster.router.ready["http"]
        with Bench("--protocol", "openai", "--server", http, "--concurrency", 4, "--runs", 1,
                   "--prompts", DEMO_MODEL / "prompts.jsonl", "--output-tokens", 300, "--tag",
                   "counted") as run:
            code, _, err = run.finish()
            self.assertEqual(code, 0, err)
            requests = [row for row in run.rows() if "chunks" in row]
        self.assertEqual({row["finish_reason"] for row in requests}, {"stop"})
        for row in requests:
            self.assertEqual(sum(tokens for _, tokens in row["chunks"]), row["output_tokens"])

    def test_natural_ends_of_random_prompts_are_warned_of(self):
        with Bench(*self.server, "--concurrency", 4, "--requests", 8, "--eos", "both", *SMALL) as run:
            code, _, err = run.finish()
        self.assertEqual(code, 0, err)
        self.assertIn("Try: --prompts FILE, as models/demo/prompts.jsonl", err)

    def test_a_search_ends_with_a_passing_and_a_failing_point(self):
        # No server keeps 1 us: every point fails, surely.
        with Bench(*self.server, "--find-max", "concurrency", "--slo", "ttft=0.001ms,percentile=90",
                   *SMALL[:4]) as run:
            code, out, _ = run.finish()
            self.assertEqual(code, 1)
            found = run.result()["find_max"]
        self.assertIn("no concurrency was found", out)
        self.assertIsNone(found["best"])
        self.assertEqual(found["failed_metric"], "ttft")

    def test_metrics_and_plots_of_a_run(self):
        admins = [process.admin for process in self.cluster.processes()]
        with tempfile.TemporaryDirectory() as plots, Bench(
                *self.server, "--rate", 50, "--requests", 50, "--metrics", ",".join(admins),
                "--plots", plots, *SMALL) as run:
            code, out, err = run.finish()
            self.assertEqual(code, 0, err)
            pictures = {path.name for path in pathlib.Path(plots).iterdir()}
            metrics = run.result()["runs"][0]["server_metrics"]
        self.assertLessEqual({"cdf.svg", "timeline.svg", "load.svg"}, pictures)
        self.assertEqual({target["role"] for target in metrics["targets"]},
                         {"router", "prefill", "decode"})
        self.assertIsNotNone(metrics["peak_kv_usage"])
        self.assertGreater(metrics["decode_tokens_per_busy_s"], 0)
        self.assertIn("server: decode peak KV use", out)

    def test_a_full_disk_is_told_and_the_rows_are_kept(self):
        with Bench(*self.server, "--rate", 50, "--requests", 20, *SMALL, full_disk=True) as run:
            code, out, err = run.finish()
            self.assertEqual(code, 1)
            self.assertFalse((run.path / "result.json").exists())
            self.assertEqual(sum("chunks" in row for row in run.rows()), 20)
        self.assertIn("20 of 20 requests completed", out)
        self.assertIn("No space left on device", err)

    def test_a_signal_keeps_what_was_measured(self):
        before = self.answered()
        with Bench(*self.server, "--rate", 20, "--duration", "600s", *SMALL) as run:
            wait_until(lambda: self.answered() >= before + 10, "some answers")
            run.process.send_signal(signal.SIGINT)
            code, _, err = run.finish()
            result = run.result()
        self.assertEqual(code, 1)
        self.assertIn("what was measured is kept", err)
        self.assertTrue(result["partial"])
        self.assertIn("interrupted", result["partial_reason"])
        self.assertGreater(result["completed"], 0)

    def test_a_server_that_stands_still_is_seen_in_the_tail(self):
        """Requests that arrive while the server stands still wait, and that counts as their latency."""
        before = self.answered()
        with Bench(*self.server, "--rate", 50, "--duration", "8s", *SMALL) as run:
            wait_until(lambda: self.answered() >= before + 50, "some answers")
            os.kill(self.cluster.router.pid, signal.SIGSTOP)
            try:
                time.sleep(2)
            finally:
                os.kill(self.cluster.router.pid, signal.SIGCONT)
            code, _, err = run.finish()
            self.assertEqual(code, 0, err)
            result = run.result()
        # A quarter of the arrivals fell into it and waited from 2 s down to nothing.
        self.assertGreater(result["p99_ttft_ms"], 1500)
        self.assertGreater(result["p90_ttft_ms"], 500)

    def test_wrong_input_is_refused_before_any_load(self):
        received = self.cluster.router.metrics().sum("baton_requests_received_total")
        address = self.cluster.router.grpc
        for arguments, code, words in (
                (["--server", address], 2, "no load"),
                (["--server", address, "--rate", "x"], 2, "found 'x'"),
                (["--server", "127.0.0.1:1", "--rate", "1"], 1, "no answer from 127.0.0.1:1"),
                (["--server", address, "--rate", "1", "--out", "/nowhere/r.json"], 2, "/nowhere"),
                (["--server", address, "--rate", "1", "--out", "/usr"], 2, "that is a folder"),
                (["--server", address, "--rate", "1", "--out", "/usr/x", "--rows", "/usr/../usr/x"],
                 2, "both name /usr/x"),
                (["--server", address, "--rate", "1", "--slo", "ttft=soon"], 2, "soon"),
                (["--server", address, "--rate", "1", "--input-tokens", "9999999"], 2, "9999999"),
                (["--server", address, "--find-max", "rate", "--slo", "ttft=1s", "--input-tokens",
                  "9999999"], 2, "9999999"),
                (["--server", address, "--rate", "1", "--input-tokens", "50",
                  "--shared-prefix-tokens", "100"], 2, "Try: a number below 50"),
                (["--server", address, "--rate", "1", "--output-tokens", "many"], 2, "many"),
                (["--server", address, "--trace", "/nowhere.csv"], 2, "/nowhere.csv"),
                (["--server", address, "--rate", "1", "--model", "other"], 2, "other")):
            with self.subTest(arguments):
                found, out, err = bench(*arguments)
                self.assertEqual(found, code, err)
                self.assertIn(words, err)
                self.assertEqual(out, "")
        self.assertEqual(self.cluster.router.metrics().sum("baton_requests_received_total"), received)

    def test_every_figure_is_explained(self):
        code, out, _ = bench("--explain")
        self.assertEqual(code, 0)
        for name in ("ttft", "tpot", "itl", "goodput"):
            self.assertIn(name, out)


class FakeOpenAi:
    """A process of tests/fakes/fake_openai_main.cc, which ends when its standard input does."""

    def __init__(self, slow_from, key=""):
        self.process = subprocess.Popen(
            [str(FAKE_OPENAI), str(slow_from), *([key] if key else [])], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True)
        self.arguments = ("--protocol", "openai", "--server", self.process.stdout.readline().strip(),
                          "--vocab-size", "100")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.communicate(timeout=PATIENCE_S)


class OpenAiTest(unittest.TestCase):
    def test_another_server_is_measured(self):
        with FakeOpenAi(1000) as fake, Bench(*fake.arguments, "--concurrency", 4, "--requests", 40,
                                             "--eos", "both", *SMALL) as run:
            code, out, err = run.finish()
            self.assertEqual(code, 0, err)
            result = run.result()
        self.assertIn("40 of 40 requests completed: 40 length", out)
        self.assertEqual((result["endpoint_type"], result["model_id"]), ("openai", "fake"))
        self.assertEqual((result["completed"], result["total_input_tokens"]), (80, 80 * 32))
        self.assertEqual([run["eos"] for run in result["runs"]], ["honor", "continue"])
        self.assertEqual(result["runs"][0]["prompt_counts"]["different"], 0)
        self.assertIn(f"--prompt-salt {result['prompt_salt']}", err)
        self.assertIn("EOS and other special tokens among them", err)

    def test_a_key_is_asked_for_and_sent(self):
        load = ("--concurrency", 1, "--requests", 2, "--prompt-salt", 7, *SMALL)
        with FakeOpenAi(1000, key="secret") as fake:
            with Bench(*fake.arguments, *load, environment={"OPENAI_API_KEY": ""}) as run:
                code, _, err = run.finish()
                self.assertEqual(code, 2, err)
                self.assertIn("HTTP 401. Try: set OPENAI_API_KEY", err)
            with Bench(*fake.arguments, *load, environment={"OPENAI_API_KEY": "secret"}) as run:
                code, _, err = run.finish()
                self.assertEqual(code, 0, err)
                self.assertEqual(run.result()["prompt_salt"], 7)

    def test_a_search_finds_the_most_users_that_keep_the_slo(self):
        with FakeOpenAi(3) as fake, Bench(*fake.arguments, "--find-max", "concurrency", "--slo",
                                          "ttft=100ms,percentile=50", *SMALL[:4]) as run:
            code, out, err = run.finish()
            self.assertEqual(code, 0, err)
            result = run.result()
        self.assertEqual((result["find_max"]["best"], result["find_max"]["first_failing"]), (3, 4))
        self.assertEqual(result["find_max"]["failed_metric"], "ttft")
        self.assertTrue(result["find_max"]["converged"])
        self.assertFalse(result["partial"])
        self.assertEqual(result["runs"][0]["concurrency"], 3)
        self.assertIn("highest concurrency that keeps the SLO: 3", out)

    def test_a_search_that_is_interrupted_keeps_its_points(self):
        with FakeOpenAi(1000) as fake, Bench(*fake.arguments, "--find-max", "concurrency", "--slo",
                                             "ttft=1s,percentile=50", *SMALL[:4]) as run:
            for line in run.process.stderr:
                if "passes" in line:
                    break
            run.process.send_signal(signal.SIGINT)
            code, out, _ = run.finish()
            result = run.result()
        self.assertEqual(code, 1)
        self.assertTrue(result["partial"])
        self.assertTrue(result["find_max"]["interrupted"])
        accepted = [point["value"] for point in result["points"] if point["accepted"]]
        self.assertEqual(result["find_max"]["best"], max(accepted))
        answer = f"concurrency that keeps the SLO: at least {max(accepted):g}; interrupted"
        self.assertIn(answer, out)
        self.assertEqual((result["find_max"]["answer"], result["partial_reason"]), (answer, answer))


class DyingServerTest(unittest.TestCase):
    def test_what_was_measured_before_the_server_died_is_kept(self):
        with Cluster() as cluster, Bench("--server", cluster.router.grpc, "--rate", 50,
                                         "--duration", "600s", *SMALL) as run:
            wait_until(lambda: cluster.router.metrics().sum("baton_requests_received_total") > 20,
                       "some requests")
            cluster.router.kill()
            code, out, err = run.finish()
            result = run.result()
        self.assertEqual(code, 1)
        self.assertTrue(result["partial"], err)
        self.assertGreater(result["completed"], 0)
        self.assertGreater(result["failed"], 0)
        self.assertIn("partial", out)


if __name__ == "__main__":
    unittest.main(verbosity=2)
