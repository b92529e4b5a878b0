"""Rows and results as Python structures."""

import json
import os
import tempfile
import unittest

import synthetic_bench
from baton_analysis.errors import InputError
from baton_analysis.groups import groups_of
from baton_analysis.result import read_result, server_series
from baton_analysis.rows import read_rows


class ReaderTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def written(self, *bench, **options):
        return synthetic_bench.write(self.folder, *bench, **options)

    def edited(self, path, edit):
        with open(path, encoding="utf-8") as file:
            lines = file.read().split("\n")
        edit(lines)
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(lines))
        return path

    def refused(self, read, path, *parts):
        with self.assertRaises(InputError) as caught:
            read(path)
        for part in (path, *parts):
            self.assertIn(part, str(caught.exception))

    def test_latencies_count_from_the_scheduled_arrival(self):
        bench, runs = synthetic_bench.one_run(count=1)
        runs[0][0] |= {"scheduled": 1.0, "sent": 1.5, "ended": 3.5, "output_tokens": 3,
                       "chunks": [[2.0, 1], [2.25, 1], [3.0, 1]]}
        _, path = self.written(bench, runs)
        request = read_rows(path).runs[0].requests[0]
        self.assertEqual(request.ttft_ms, 1000)
        self.assertEqual(request.tpot_ms, 500)
        self.assertEqual(request.e2el_ms, 2000)
        self.assertEqual(request.gaps_ms, [250, 750])
        self.assertTrue(request.ok)
        self.assertAlmostEqual(request.timings.prefill, runs[0][0]["timings_ms"]["prefill"])

    def test_a_request_without_output_has_no_latencies(self):
        bench, runs = synthetic_bench.one_run(count=2)
        _, path = self.written(bench, runs)

        def empty(lines):
            row = json.loads(lines[1]) | {"chunks": [], "output_tokens": 0, "timings_ms": None,
                                          "error": {"code": "UNAVAILABLE", "message": "gone"}}
            lines[1] = json.dumps(row)

        request = read_rows(self.edited(path, empty)).runs[0].requests[0]
        self.assertEqual((request.ttft_ms, request.tpot_ms, request.e2el_ms), (None, None, None))
        self.assertEqual(request.error.code, "UNAVAILABLE")
        self.assertFalse(request.ok)

    def test_runs_are_told_apart(self):
        _, path = self.written(*synthetic_bench.a_search(count=20))
        rows = read_rows(path)
        self.assertEqual([len(run.requests) for run in rows.runs], [20] * 10)
        self.assertEqual(rows.runs[2].label, "4 requests/s")
        self.assertTrue(rows.complete)

    def test_a_file_that_was_cut_off_is_read_to_its_last_whole_line(self):
        _, path = self.written(*synthetic_bench.one_run(count=5))

        def cut(lines):
            lines[4:] = [lines[4][:40]]

        rows = read_rows(self.edited(path, cut))
        self.assertEqual(len(rows.runs[0].requests), 3)
        self.assertFalse(rows.complete)
        self.assertFalse(rows.runs[0].complete)

    def test_an_error_names_the_file_and_the_line(self):
        _, path = self.written(*synthetic_bench.one_run(count=5))
        self.refused(read_rows, self.edited(path, lambda lines: lines.insert(3, '{"run": 0}')),
                     "line 4", "no 'error'")
        self.refused(read_rows, self.edited(path, lambda lines: lines.__setitem__(3, "{nonsense")), "line 4")
        self.refused(read_rows, self.edited(path, lambda lines: lines.pop(0)), "baton.bench.rows/1")
        self.refused(read_rows, os.path.join(self.folder, "absent.jsonl"), "cannot be read")

    def test_a_result_of_something_else_is_refused(self):
        path, _ = self.written(*synthetic_bench.one_run(count=5))
        self.assertEqual(read_result(path).slo.limits, {"ttft": 200.0, "tpot": 40.0})
        for text, part in (("{", "not JSON"), ("[]", "schema None"), ('{"schema": "x/1"}', "'x/1'"),
                           ('{"schema": "baton.bench/1"}', "lacks runs")):
            self.refused(read_result, self.edited(path, lambda lines: lines.__setitem__(0, text)), part)

    def test_only_the_measured_window_is_looked_at(self):
        result_path, rows_path = self.written(*synthetic_bench.one_run(count=60))
        result, rows = read_result(result_path), read_rows(rows_path)
        first = result.runs[0]["window"]["from"]
        group, = groups_of(result, rows)
        self.assertEqual(len(group.completed),
                         sum(request.scheduled >= first for request in rows.runs[0].requests))
        self.assertLess(len(group.completed), 60)

    def test_a_search_is_seen_at_its_best_load(self):
        result_path, rows_path = self.written(*synthetic_bench.a_search(count=40, loads=(1, 2, 64)))
        group, = groups_of(read_result(result_path), read_rows(rows_path))
        self.assertIn("2 requests/s", group.name)
        self.assertEqual(group.members[0].run.index, 1)

    def test_the_window_of_a_search_is_of_the_run_that_it_describes(self):
        # The best load was looked at twice; the result describes the second look.
        bench, runs = synthetic_bench.a_search(count=40, loads=(2, 64, 2))
        bench["runs"] = [synthetic_bench.described(
            runs[2][:30], {}, "2 requests/s", 2.0, index=2)]
        group, = groups_of(*(read(path) for read, path in zip(
            (read_result, read_rows), self.written(bench, runs))))
        self.assertEqual([member.run.index for member in group.members], [2, 0])
        self.assertIsNotNone(group.members[0].window)
        self.assertIsNone(group.members[1].window)
        self.assertLess(len(group.members[0].requests), 40)

    def test_kv_use_is_read_where_workers_say_it(self):
        bench, _ = synthetic_bench.one_run(count=20)
        series = server_series(bench["runs"][0])
        self.assertEqual(sorted(series), ["decode 127.0.0.1:9202", "prefill 127.0.0.1:9201"])
        self.assertEqual(server_series({"server_metrics": None}), {})


if __name__ == "__main__":
    unittest.main()
