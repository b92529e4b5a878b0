"""Figures that were measured outlive what fails behind them: steps, small weights, services and kills."""

import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import time
import types
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import gpu_run  # noqa: E402
import plan  # noqa: E402
import sizes  # noqa: E402
import small_weights  # noqa: E402
import steps  # noqa: E402
import test_folder  # noqa: E402
import throughput  # noqa: E402
import transports  # noqa: E402

# Prints a line for every row of the dry run's shape, up to the one that FAIL_AT of its flags begins.
BENCH = """#!{python}
import sys
flags = " ".join(sys.argv[1:])
fails = {fails!r}
print("cpu/avx2/bfloat16, 2 threads: peak 100.0 GFLOP/s, read 10.0 GB/s; medians of 1")
for name in {names!r}:
    for at, line in fails:
        if at in flags and name.startswith(line):
            sys.stdout.flush()
            print("INTERNAL: illegal memory access", file=sys.stderr)
            sys.exit(3)
    print(f"{{name:34}} {{1.5:10.3f}} ms {{2.0:9.1f}} GB/s     50.0 % of peak")
"""
TORCH = """#!{python}
import json
import sys
import time
print(json.dumps({{"torch": "2", "transformers": "5"}}), flush=True)
for number, line in enumerate(sys.stdin):
    if number >= {answers}:
        time.sleep(600)
    print(json.dumps({{"bytes_per_s": 1e9, "flops_per_s": 1e12, "seconds": 0.5}}), flush=True)
"""
LINES = ["matmuls of all layers, M = 1", "matmuls of all layers, M = 8", "matmuls of all layers, M = 128",
         "prefill of 2 x 64", "decode, batch 8, context 64", "decode, batch 1, context 64",
         "attention, prefill of 2 x 64", "attention, 8 x context 64"]


class Measured(test_folder.Folder):
    def make_context(self, limit_s=60):
        context = gpu_run.Context("cpu", types.SimpleNamespace(program=lambda name: self.folder / name, origin="b"),
                                  {}, {}, "", self.folder, self.folder / "model", sizes.of("cpu"))
        context.begin(limit_s)
        return context

    def measure(self, measure, rows, context):
        """(row by name, the Failure's text or '', the part's line)."""
        path = self.folder / "part.json"
        recorder, failure = plan.Recorder(path, rows), ""
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            try:
                measure(context, recorder)
            except plan.Failure as error:
                failure = str(error)
        found = json.loads(path.read_text())
        return {row["what"]: row for row in found["rows"]}, failure, found["why"]


class Figures(Measured):
    def steps(self, fails=(), answers=1000, limit_s=60):
        self.write_program("bench_kernels", BENCH.format(python=sys.executable, fails=list(fails), names=LINES))
        context = self.make_context(limit_s)
        context.python = str(self.write_program("python", TORCH.format(python=sys.executable, answers=answers)))
        return self.measure(steps.steps, steps.rows(context.sizes), context)

    def test_steps_that_all_go_well(self):
        rows, failure, why = self.steps()
        self.assertEqual((failure, why), ("", "1 of 1 rounds in turns with transformers 5 on torch 2"))
        self.assertNotIn("not measured", [row["baton"] for row in rows.values()])
        self.assertNotIn("not measured", [row["peer"] for row in rows.values() if row["has_peer"]])

    def test_what_was_printed_before_a_failure_is_kept_and_the_rest_is_measured(self):
        rows, failure, _ = self.steps([("matmuls,steps,operations", "attention, prefill")])
        self.assertEqual(failure, "bench_kernels ended with 3: INTERNAL: illegal memory access")
        self.assertEqual([name for name, row in rows.items() if row["baton"] == "not measured"],
                         ["attention, prefill of 2 x 64", "attention, 8 x context 64"])
        self.assertIn("500.000 ms", rows["decode, batch 1, context 64"]["peer"])

    def test_a_cache_of_fp8_that_fails_costs_torch_nothing(self):
        rows, failure, _ = self.steps([("--kv-dtype fp8", "decode, batch 1")])
        self.assertEqual(failure, "bench_kernels --kv-dtype fp8 ended with 3: INTERNAL: illegal memory access")
        self.assertIn("1.500 ms", rows["prefill of 2 x 64, KV cache of fp8"]["baton"])
        self.assertEqual(rows["decode, batch 1, context 64, KV cache of fp8"]["baton"], "not measured")
        self.assertIn("500.000 ms", rows["prefill of 2 x 64"]["peer"])

    def test_torch_that_hangs_leaves_time_for_what_is_behind_it(self):
        rows, failure, _ = self.steps(answers=1, limit_s=10)
        self.assertEqual(failure, "")
        self.assertIn("1.500 ms", rows["prefill of 2 x 64, KV cache of fp8"]["baton"])
        self.assertEqual(rows[steps.COPY]["peer"], "1 GB/s")

    def test_of_a_run_that_hangs_the_lines_are_kept(self):
        self.write_program("bench_kernels", BENCH.format(python=sys.executable, names=LINES, fails=[]).replace(
            'print(f"{name', 'name.startswith("decode") and __import__("time").sleep(600)\n    print(flush=True, end='
            'f"{name').replace('of peak")', 'of peak\\n")'))
        context = self.make_context(7)
        with contextlib.redirect_stdout(io.StringIO()):
            output = steps.bench_kernels(context, "steps")
        self.assertRegex(output.problem, r"^bench_kernels was not done after \d s$")
        self.assertIn("prefill of 2 x 64", output.lines)

    def test_weights_of_one_kind_that_fail_cost_the_other_nothing(self):
        self.write_program("bench_kernels", BENCH.format(python=sys.executable, names=LINES, fails=[
            ("--weights w4", "matmuls of all layers, M = 128")]))
        context = self.make_context()
        rows, failure, why = self.measure(small_weights.measure, small_weights.rows(context.sizes), context)
        self.assertEqual(failure,
                         "bench_kernels --weights w4 --group 128 ended with 3: INTERNAL: illegal memory access")
        self.assertEqual(why, "w4, w8 in groups of 128")
        self.assertIn("1.500 ms", rows["w4, matmuls of all layers, M = 1"]["baton"])
        self.assertEqual(rows["w4, prefill of 2 x 64"]["baton"], "not measured")
        self.assertNotIn("not measured", [row["baton"] for name, row in rows.items() if name.startswith("w8")])

    def test_weights_of_one_kind_that_hang_leave_time_to_the_other(self):
        self.write_program("bench_kernels", BENCH.format(python=sys.executable, names=LINES, fails=[]).replace(
            "for name in", '"w4" in sys.argv and __import__("time").sleep(600)\nfor name in', 1))
        context = self.make_context(12)
        rows, failure, _ = self.measure(small_weights.measure, small_weights.rows(context.sizes), context)
        self.assertRegex(failure, r"^bench_kernels --weights w4 --group 128 was not done after \d s$")
        self.assertNotIn("not measured", [row["baton"] for name, row in rows.items() if name.startswith("w8")])


class Services(Measured):
    def test_a_failing_way_costs_the_others_nothing(self):
        def kill(_, way, role):
            if (way, role) == ("grpc", "prefill"):
                raise AssertionError("waited in vain for: a failpoint\n  a log")
            if (way, role) == ("cuda_ipc", "decode"):
                raise subprocess.TimeoutExpired("baton", 3)
            return 2
        with mock.patch.object(transports, "kill_during_transfer", kill), \
                mock.patch.object(transports, "way_flags", lambda *_: []), \
                mock.patch.object(transports, "load_cluster", lambda *_: types.SimpleNamespace(PATIENCE_S=0)):
            _, failure, why = self.measure(transports.kills, [], self.make_context())
        self.assertRegex(failure, r"^2 of 6 failed; prefill over grpc: waited in vain for: a failpoint\n"
                                  r"(.|\n)*decode over cuda_ipc: .*timed out after 3 seconds")
        self.assertRegex(why, "^4 kills, no request lost")

    def test_a_service_that_fails_in_one_type_is_still_asked_in_the_other(self):
        def check(_, __, dtype, ___):
            if dtype == "float32":
                raise plan.Failure("3 of 32 answers differ")
            return {"answers": 32, "near_ties": 1, "prompt_tokens_handed_over": 99}
        with mock.patch.object(transports, "check_way", check), \
                mock.patch.object(transports, "way_flags", lambda *_: []), \
                mock.patch.object(transports, "load_cluster", lambda *_: types.SimpleNamespace(PATIENCE_S=0)):
            _, failure, why = self.measure(lambda *both: transports.check_service("grpc", *both), [],
                                           self.make_context())
        self.assertEqual(failure, "1 of 2 failed; float32: 3 of 32 answers differ")
        self.assertEqual(why, "bfloat16: 32 answers equal, 1 of them up to a near-tie")


class Waits(Measured):
    def test_the_peer_that_does_not_start_leaves_the_part_its_time(self):
        context = self.make_context(limit_s=6)
        context.python = str(self.write_program("python", "#!/bin/sh\necho loads and loads\nexec sleep 600\n"))
        begin = time.monotonic()
        with contextlib.redirect_stdout(io.StringIO()):
            with self.assertRaisesRegex(plan.NotMeasured,
                                        r"did not start: .* was not ready after \d s: loads and loads"):
                throughput.start_peer(context, self.folder / "model")
        self.assertLess(time.monotonic() - begin, 30)

    def test_a_load_that_is_not_done_is_a_failure_of_its_own(self):
        with self.assertRaisesRegex(plan.Failure, "^sleep 600 was not done after 1 s$"):
            throughput.run_checked(["sleep", "600"], self.make_context(limit_s=3), dict(os.environ))

    def test_a_log_is_told_as_it_is_when_the_wait_is_over(self):
        self.set_environment()  # which that changes
        cluster = transports.load_cluster(self.make_context())
        program = self.write_program("slow", "#!/bin/sh\nsleep 0.2\necho loads >&2\nexec sleep 600\n")
        slow = cluster.Process("slow", [program], self.folder)
        self.addCleanup(slow.kill)
        with mock.patch.object(cluster, "PATIENCE_S", 4), \
                self.assertRaisesRegex(cluster.Failure, "^waited in vain for: the ready line of slow:\n  slow. loads$"):
            slow.wait_ready()


if __name__ == "__main__":
    unittest.main()
