"""The logic of tests/gpu/run: what is written, what is read, how it refuses."""

import contextlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import build  # noqa: E402
import gpu_run  # noqa: E402
import gtests  # noqa: E402
import plan  # noqa: E402
import report  # noqa: E402
import sizes  # noqa: E402
import steps  # noqa: E402
import test_folder  # noqa: E402
import transports  # noqa: E402


class Report(unittest.TestCase):
    def results(self):
        rows = [report.Row("decode", 80, "bandwidth", "4.1 ms", 79.96, "9.0 ms", True, {"of": "copy bandwidth"}),
                report.Row("prefill", 60, "peak")]
        return [report.PartResult("facts", "passed", "one | GPU", 1.25, []),
                report.PartResult("steps", "failed", "it broke\nhere", 3, rows, {"n": 1})]

    def test_table(self):
        text = report.text(["head"], self.results())
        self.assertIn("| facts | passed | 1.2 | one / GPU", text)
        self.assertRegex(text, r"\| decode +\| ≥ 80 % of bandwidth \| 4.1 ms +\| 80.0 % of copy bandwidth, below the "
                               r"aim \| 9.0 ms")
        self.assertRegex(text, r"\| prefill +\| ≥ 60 % of peak +\| not measured \|")
        self.assertTrue(text.endswith("\n\n1 passed, 1 failed.\n"), text)
        self.assertEqual(len({len(line) for line in text.splitlines() if line.startswith("| fa")}), 1)

    def test_an_error_stands_at_full_length_below_the_table(self):
        long = report.PartResult("kernels", "failed", "2 of 9 tests failed; A: …", 1, [], {
            "error": "2 of 9 tests failed; A: x.cc:7\nB: INTERNAL: sticky"})
        short = report.PartResult("serve", "failed", "not equal", 1, [], {"error": "not equal"})
        text = report.text(["head"], [long, short])
        self.assertIn("\n\nkernels failed: 2 of 9 tests failed; A: x.cc:7\nB: INTERNAL: sticky\n\n", text)
        self.assertEqual(text.count("not equal"), 1)

    def test_document(self):
        found = json.loads(report.document({"date": "d"}, self.results(), 4.3))
        self.assertEqual((found["date"], found["exit_code"], found["summary"]), ("d", 1, "1 passed, 1 failed"))
        self.assertEqual(found["parts"][1]["rows"][0]["percent"], 79.96)
        self.assertEqual(found["parts"][1]["details"], {"n": 1})

    def test_a_status_of_another_name_is_refused(self):
        with self.assertRaisesRegex(ValueError, "'fine'; expected one of passed"):
            report.PartResult("p", "fine", "", 0, [])

    def test_the_benchmarks_page_has_every_row(self):
        page = (build.ROOT / "docs/benchmarks.md").read_text()
        for part in gpu_run.PARTS:
            for row in part.rows(sizes.CUDA):
                self.assertIn(f"| {row.what} | {row.aim_text()} |".replace("|  |", "| |"), page)


class Reading(unittest.TestCase):
    BENCH = """cuda/sm_90/bfloat16/cublaslt/attn1, 16 threads: peak 780123.4 GFLOP/s, copy 4301.2 GB/s; medians of 3
packed 15009 MB and prepared in 9.87 s
matmuls of all layers, M = 1            4.100 ms    3600.1 GB/s     83.7 % of copy bandwidth
prefill of 8 x 1024                   210.500 ms  540000.0 GFLOP/s  69.2 % of peak
"""

    def test_bench_kernels(self):
        output = steps.BenchOutput(self.BENCH)
        self.assertEqual((output.flops_per_s, output.bytes_per_s), (780123.4e9, 4301.2e9))
        self.assertEqual(output.lines["prefill of 8 x 1024"], {
            "ms": 210.5, "rate": 540000.0, "unit": "GFLOP/s", "percent": 69.2, "of": "peak"})
        self.assertEqual(len(output.lines), 2)

    def test_bench_kernels_that_says_something_else(self):
        with self.assertRaisesRegex(plan.Failure, "said 'no GPU' where its limits were expected"):
            steps.BenchOutput("no GPU\n")

    def test_shape_counts_what_a_step_reads(self):
        shape = sizes.CUDA.shape
        self.assertEqual(shape.kv_bytes_per_token(), 131072)
        # All weights but the embedding's matrix, of which a step reads some rows, and the norms.
        self.assertAlmostEqual(shape.weight_bytes() / (2 * (8030261248 - 128256 * 4096)), 1, places=4)
        self.assertAlmostEqual(shape.prefill_flops(8, 1024) / (2 * 8192 * 6.98e9), 1, delta=0.05)

    def test_google_test(self):
        outcome = gtests.Outcome("t")
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"testsuites": [{"name": "S", "testsuite": [
                {"name": "A", "status": "RUN", "result": "COMPLETED", "near_ties": "2"},
                {"name": "B", "status": "RUN", "result": "SKIPPED"},
                {"name": "C", "status": "NOTRUN", "result": "SUPPRESSED"},
                {"name": "D", "status": "RUN", "result": "COMPLETED", "failures": [
                    {"failure": "x.cc:7\nExpected 1\nfound 2"}]}]}]}, file)
            file.flush()
            outcome.read(file.name)
        self.assertEqual((outcome.passed, outcome.skipped, outcome.ran), (1, 1, 2))
        self.assertEqual(outcome.failed, [("S.D", "x.cc:7 Expected 1 found 2")])
        self.assertEqual(outcome.properties, {"near_ties": [("S.A", "2")]})

    def test_a_message_is_kept_to_its_end_where_the_status_stands(self):
        outcome = gtests.Outcome("t")
        outcome.take("S.E", {"status": "RUN", "result": "COMPLETED", "failures": [
            {"failure": "x.cc:7\nValue of: m.ok()\n  Actual: false\nExpected: true\nINTERNAL: no driver\n"}]})
        outcome.take("S.F", {"status": "RUN", "result": "COMPLETED", "failures": [
            {"failure": "x.cc:9\n" + "many numbers " * 500 + "\nINTERNAL: sticky"}]})
        self.assertEqual(outcome.failed[0][1],
                         "x.cc:7 Value of: m.ok() Actual: false Expected: true INTERNAL: no driver")
        long = outcome.failed[1][1]
        self.assertTrue(long.startswith("x.cc:9 many") and long.endswith("INTERNAL: sticky"), long)
        self.assertLess(len(long), 620)

    def test_tests_that_only_skip_are_not_measured(self):
        outcome = gtests.Outcome("t")
        outcome.skipped = 3
        recorder = types.SimpleNamespace(why=lambda *_: None, detail=lambda *_: None)
        with self.assertRaisesRegex(plan.NotMeasured, "3 skipped"):
            gtests.judge([outcome], recorder, "program")
        outcome.passed, outcome.problem = 1, "ended with -11"
        with self.assertRaisesRegex(plan.Failure, "t: ended with -11"):
            gtests.judge([outcome], recorder, "program")


class Programs(test_folder.Folder):
    """Runs of programs that behave as test binaries do, or not."""

    def run_program(self, text, limit_s=20):
        path = self.write_program("some_gpu_test", f"#!/bin/sh\n{text}\n")
        log = io.StringIO()
        with contextlib.redirect_stdout(log):
            outcome = gtests.run_gtest(test_folder.context(work=self.folder, build=None), "some_gpu_test", path, limit_s)
        self.log = log.getvalue()
        return outcome

    def judged(self, *outcomes):
        recorder = types.SimpleNamespace(why=lambda *_: None, detail=lambda *_: None)
        with self.assertRaises(plan.Failure) as caught:
            gtests.judge(outcomes, recorder, "program")
        return str(caught.exception)

    ABORTS = """echo '[==========] Running 3 tests from 1 test suite.'
echo '[ RUN      ] Kinds/Some.First/w4'
echo '[       OK ] Kinds/Some.First/w4 (3 ms)'
echo '[ RUN      ] Kinds/Some.Second/w8'
echo 'x.cc:7: Failure'
echo '[  FAILED  ] Kinds/Some.Second/w8, where GetParam() = 8 (5 ms)'
echo '[ RUN      ] Kinds/Some.Third/w8'
echo 'no such device' >&2
kill -ABRT $$"""

    def test_one_that_aborts_has_failed_in_the_test_that_it_ran(self):
        outcome = self.run_program(self.ABORTS)
        self.assertEqual((outcome.passed, outcome.skipped), (1, 0))
        self.assertEqual(outcome.failed, [("Kinds/Some.Second/w8", "x.cc:7: Failure"),
                                          ("Kinds/Some.Third/w8", "no such device")])
        self.assertRegex(outcome.problem, "^ended with -6 and without a report: .*, in Kinds/Some.Third/w8$")
        self.assertRegex(self.judged(outcome),
                         "^2 of 3 tests failed, 1 of 1 programs did not end well; some_gpu_test: ")
        self.assertNotIn("First/w4 (3 ms)", self.log)
        self.assertIn("Second/w8, where", self.log)

    def test_one_that_ends_before_its_first_test_has_failed(self):
        for text, problem in (("echo no driver >&2; exit 3", "ended with 3 and without a report: no driver"),
                              ("exit 0", "ended with 0 and without a report: ")):
            outcome = self.run_program(text)
            self.assertEqual(outcome.failed, [("some_gpu_test", problem)])
            self.assertRegex(self.judged(outcome), "^1 of 1 tests failed")

    def test_one_that_hangs_names_the_test_that_does(self):
        outcome = self.run_program("echo '[ RUN      ] Some.Test'; exec sleep 600", limit_s=4)
        self.assertEqual(outcome.failed, [("Some.Test", "said nothing")])
        self.assertEqual(outcome.problem, "not done after 4 s, in Some.Test")

    def test_the_log_has_the_first_failure_and_the_last(self):
        self.run_program("echo the culprit; yes 'fails as well' | head -n 5000; echo the last; exit 1")
        self.assertIn("the culprit", self.log)
        self.assertIn("the last", self.log)
        self.assertLess(len(self.log), 25000)


class Answers(unittest.TestCase):
    def answer(self, ids, gap=0.01):
        tops = [{"top": [{"token_id": i, "logprob": -1.0}, {"token_id": i + 100, "logprob": -1.0 - gap}]} for i in ids]
        return {"token_ids": ids, "logprobs": tops}

    def test_equal(self):
        self.assertEqual(transports.compare([self.answer([1, 2])], [self.answer([1, 2])], True), ([], 0))

    def test_a_near_tie_counts_only_where_it_may(self):
        other, right = self.answer([1, 102]), self.answer([1, 2])
        self.assertEqual(transports.compare([other], [right], True), ([], 1))
        wrong, ties = transports.compare([other], [right], False)
        self.assertEqual((len(wrong), ties), (1, 0))
        self.assertIn("token 1 is 102, expected 2", wrong[0])

    def test_a_wide_gap_or_a_third_token_is_wrong(self):
        for other, right in ((self.answer([1, 102]), self.answer([1, 2], gap=0.5)),
                             (self.answer([1, 55]), self.answer([1, 2]))):
            self.assertEqual(len(transports.compare([other], [right], True)[0]), 1)

    def test_a_lost_request_is_wrong(self):
        wrong, _ = transports.compare([{"error": {"code": "UNAVAILABLE"}}], [self.answer([1])], True)
        self.assertIn("UNAVAILABLE", wrong[0])
        with self.assertRaises(ValueError):
            transports.compare([], [self.answer([1])], True)


class CommandLine(test_folder.Folder):
    def call(self, *arguments, path="/usr/bin:/bin"):
        return subprocess.run([str(build.ROOT / "tests/gpu/run"), *arguments], capture_output=True, text=True,
                              timeout=60, check=False, env={**os.environ, "PATH": path})

    def refused(self, *arguments):
        result = self.call(*arguments)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertNotIn("Traceback", result.stderr)
        return result.stderr

    def test_refusals(self):
        self.assertIn("no part 'step'", self.refused("--only", "step"))
        self.assertIn("--budget: expected more than 0", self.refused("--budget", "0"))
        self.assertIn("invalid choice: 'tpu'", self.refused("--device", "tpu"))
        self.assertIn("/nonexistent is not there", self.refused("--device", "cpu", "--build", "/nonexistent"))
        self.assertIn("has no bin/baton; build it", self.refused("--device", "cpu", "--build", str(self.folder)))
        self.assertIn("--python: /no/python is not there", self.refused("--python", "/no/python"))

    def test_no_gpu(self):
        self.write_program("python3", f"#!/bin/sh\nexec {sys.executable} \"$@\"\n")
        self.write_program("env", "#!/bin/sh\nexec /usr/bin/env \"$@\"\n")
        result = self.call(path=str(self.folder))
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertRegex(result.stderr, r"^tests/gpu/run: no GPU found.*use --device cpu for a dry run")

    def test_help_names_every_part(self):
        text = self.call("--help").stdout
        for part in gpu_run.PARTS:
            self.assertRegex(text, rf"(?m)^ +{re.escape(part.name)} ")


if __name__ == "__main__":
    unittest.main()
