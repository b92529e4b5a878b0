"""Parts of tests/gpu/run and their limits: none hurts the next."""

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
import machine  # noqa: E402
import plan  # noqa: E402
import report  # noqa: E402
import test_folder  # noqa: E402


class Parts(test_folder.Folder):
    def run_parts(self, *parts, budget_s=60):
        seen = []
        results = plan.run_all(parts, test_folder.context(), self.folder, self.folder / "log.txt", budget_s,
                               lambda results: seen.append(len(results)))
        self.assertEqual(seen, list(range(1, len(parts) + 1)))
        return results

    @staticmethod
    def part(run, name="p", limit_s=30, needs_s=0, rows=lambda _: []):
        return plan.Part(name, "what", run, limit_s, needs_s, rows)

    def test_one_that_fails_does_not_stop_the_next(self):
        def fails(_, recorder):
            recorder.why("halfway")
            raise plan.Failure("3 of 4 wrong\nmore")

        def skips(_, __):
            raise plan.Skip("no GPU here")

        def lacks(_, __):
            raise plan.NotMeasured("no torch")

        def crashes(_, recorder):
            recorder.why("about to crash")
            os.abort()

        def passes(_, recorder):
            print("a line of the log")
            recorder.why("12 tests")
            recorder.detail("count", 12)
        results = self.run_parts(*map(self.part, (fails, skips, lacks, crashes, passes)))
        self.assertEqual([(r.status, r.why) for r in results], [
            ("failed", "3 of 4 wrong"), ("skipped", "no GPU here"), ("not measured", "no torch"),
            ("failed", "ended with -6; until then: about to crash"), ("passed", "12 tests")])
        self.assertEqual(results[-1].details, {"count": 12})
        self.assertEqual(results[0].details["error"], "3 of 4 wrong\nmore")
        self.assertIn("plan.Failure: 3 of 4 wrong", results[0].details["end_of_log"])
        self.assertNotIn("3 of 4 wrong", results[2].details["end_of_log"])
        self.assertIn("a line of the log", (self.folder / "log.txt").read_text())
        self.assertEqual(report.exit_code(results), 1)
        self.assertEqual(report.exit_code(results[1:3] + results[4:]), 0)

    def test_one_that_hangs_is_ended_with_what_it_started(self):
        left = self.folder / "pid"

        def hangs(_, recorder):
            child = subprocess.Popen(["sleep", "600"])
            left.write_text(str(child.pid))
            recorder.row("speed", baton="5 GB/s", percent=50.0)
            recorder.why("one round")
            time.sleep(600)
        rows = lambda _: [report.Row("speed", aim=80, limit="copy"), report.Row("other")]
        result, = self.run_parts(self.part(hangs, limit_s=2, rows=rows))
        self.assertEqual((result.status, result.why), ("failed", "not done after 2 s; until then: one round"))
        self.assertEqual([row.baton for row in result.rows], ["5 GB/s", "not measured"])
        deadline = time.monotonic() + 20
        while self.alive(int(left.read_text())):
            self.assertLess(time.monotonic(), deadline, "what it started still runs")

    @staticmethod
    def alive(pid):
        try:
            return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except FileNotFoundError:
            return False

    def test_what_has_no_time_left_is_said_to_be_so(self):
        never = self.part(lambda *_: self.fail("ran"), needs_s=100, rows=lambda _: [report.Row("speed")])
        result, = self.run_parts(never, budget_s=5)
        self.assertEqual(result.status, "not measured")
        self.assertRegex(result.why, r"^not run: time; [45] s of 5 s left, needs 100 s$")
        self.assertEqual(result.rows[0].baton, "not measured")

    def test_nothing_follows_a_part_that_blocks_however_it_ends(self):
        def hangs(_, recorder):
            recorder.blocks("CUDA did not start")
            time.sleep(600)

        def fails(_, recorder):
            recorder.blocks("CUDA does not start: 999")
            raise plan.Failure("no CUDA")

        def passes(_, recorder):
            recorder.blocks("CUDA did not start")
            recorder.blocks("")
        never = self.part(lambda *_: self.fail("ran"), "next")
        for part, why in ((self.part(hangs, limit_s=3), "not run: p: CUDA did not start"),
                          (self.part(fails), "not run: p: CUDA does not start: 999")):
            first, second = self.run_parts(part, never)
            self.assertEqual((first.status, second.status, second.why), ("failed", "not measured", why))
        first, second = self.run_parts(self.part(passes), self.part(lambda *_: None, "next"))
        self.assertEqual((first.status, second.status, first.details), ("passed", "passed", {}))

    def test_cuda_that_does_not_start_is_told_by_the_facts(self):
        facts, = plan.chosen(gpu_run.PARTS, "facts")
        lost = test_folder.context("cuda", build=types.SimpleNamespace(info={}, origin="b"))
        with mock.patch.object(machine, "driver", side_effect=machine.CudaError("libcuda.so.1 does not load")):
            result, = plan.run_all([facts], lost, self.folder, self.folder / "log.txt", 60, lambda _: None)
        self.assertEqual((result.status, result.why),
                         ("failed", "CUDA does not start: libcuda.so.1 does not load"))
        self.assertEqual(result.details[plan.BLOCKS], result.why)
        with mock.patch.object(machine, "driver"), mock.patch.object(machine, "make_context", lambda _: (1.5, 0.25)):
            result, = plan.run_all([facts], lost, self.folder, self.folder / "log.txt", 60, lambda _: None)
        self.assertEqual(result.details["cuda_start_s"], {"init": 1.5, "context": 0.25})
        self.assertNotIn(plan.BLOCKS, result.details)

    def test_rows_are_those_that_were_promised(self):
        def invents(_, recorder):
            recorder.row("height", baton="3 m")
        result, = self.run_parts(self.part(invents, rows=lambda _: [report.Row("speed")]))
        self.assertEqual(result.status, "failed")
        self.assertIn("no row 'height'; this part has 'speed'", result.why)

    def test_of_an_error_its_first_line_is_told_and_the_end_of_a_log(self):
        self.assertEqual(plan.first_line(ValueError("one\ntwo")), "one")
        self.assertEqual(plan.first_line(ValueError("decode exited with 3:\n  a| info\n  a| fatal")),
                         "decode exited with 3: a| fatal")
        self.assertEqual(plan.first_line(KeyError()), "KeyError")
        self.assertEqual(len(plan.first_line(ValueError("x" * 1000))), 300)

    def test_parts_are_chosen_by_name(self):
        names = [part.name for part in plan.chosen(gpu_run.PARTS, "steps, kernels")]
        self.assertEqual(names, ["kernels", "steps"])
        self.assertEqual([part.name for part in plan.chosen(gpu_run.PARTS, "serving")], ["model", "serving"])
        self.assertEqual(plan.chosen(gpu_run.PARTS, ""), list(gpu_run.PARTS))
        with self.assertRaisesRegex(ValueError, "no part 'step'; expected some of facts, kernels"):
            plan.chosen(gpu_run.PARTS, "step")

    def test_steps_have_their_time_whatever_hangs_before_them_and_all_others_can_begin(self):
        left = gpu_run.BUDGET_S
        for at, part in enumerate(gpu_run.PARTS):
            given = plan.allotted(gpu_run.PARTS, at, left)
            self.assertGreaterEqual(given, part.needs_s, part.name)
            self.assertLessEqual(given, part.limit_s, part.name)
            if part.name == "steps":
                self.assertGreaterEqual(given, 90)
            left -= given
        # A budget for a few goes to the first ones.
        self.assertEqual(plan.allotted(gpu_run.PARTS, 1, 21), 20)
        self.assertEqual(plan.allotted(gpu_run.PARTS[:2], 1, 100), 100)

    def test_every_part_can_begin_within_the_budget(self):
        self.assertLess(gpu_run.BUDGET_S, 540)
        for part in gpu_run.PARTS:
            self.assertLessEqual(part.needs_s, part.limit_s, part.name)


if __name__ == "__main__":
    unittest.main()
