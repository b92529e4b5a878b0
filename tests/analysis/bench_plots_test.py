"""The pictures of `baton bench --plots`: what is drawn, what is left out, and what is refused."""

import contextlib
import io
import os
import struct
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

import synthetic_bench
from baton_analysis import bench_plots, cdf_plot, load_plot, search_plots, timeline_plot
from baton_analysis.result import Result
from baton_analysis.rows import read_rows

SVG = "{http://www.w3.org/2000/svg}"
OF_RUNS = ["cdf", "timeline", "load"]
OF_SEARCHES = ["latency", "goodput", "pareto"]


class BenchPlotsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.out = os.path.join(self.folder, "plots")

    def draw(self, bench, *options, rows=True):
        """Exit code, paths printed, complaints."""
        paths = synthetic_bench.write(self.folder, *bench)
        return self.call(*paths[:2 if rows else 1], "--out", self.out, *options)

    def call(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = bench_plots.main(list(arguments))
            except SystemExit as exit_:
                code = exit_.code
        return code, out.getvalue().splitlines(), err.getvalue()

    def picture(self, name):
        root = ElementTree.parse(os.path.join(self.out, f"{name}.svg")).getroot()
        self.assertEqual(root.tag, f"{SVG}svg")
        texts = ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
        ids = [group.get("id") for group in root.iter(f"{SVG}g")]
        return root, texts, ids

    def content(self, path):
        with open(path, "rb") as file:
            return file.read()

    def names(self, paths):
        return [os.path.basename(path).partition(".")[0] for path in paths]

    def test_a_run_gives_distributions_a_timeline_and_the_load(self):
        code, paths, complaints = self.draw(synthetic_bench.one_run(count=60))
        self.assertEqual(code, 0)
        self.assertEqual(self.names(paths), OF_RUNS)
        self.assertTrue(all(os.path.getsize(path) > 1000 for path in paths))
        self.assertEqual(complaints, "", "nobody asked for pictures of a search")

    def test_a_search_gives_all(self):
        code, paths, complaints = self.draw(synthetic_bench.a_search(count=60))
        self.assertEqual((code, complaints), (0, ""))
        self.assertEqual(self.names(paths), OF_SEARCHES + OF_RUNS)

    def test_every_load_of_a_search_is_marked(self):
        bench = synthetic_bench.a_search(count=60)
        self.draw(bench)
        loads = [f"{point['value']:g}" for point in bench[0]["points"]]
        for name, kinds in (("latency", ("ttft", "tpot")), ("goodput", ("goodput",)), ("pareto", ("load",))):
            _, _, ids = self.picture(name)
            for kind in kinds:
                self.assertEqual(sorted(i for i in ids if i and i.startswith(f"{kind}-")),
                                 sorted(f"{kind}-{load}" for load in loads))

    def test_pictures_say_what_they_show(self):
        self.draw(synthetic_bench.a_search(count=60))
        for name, expected in (
                ("latency", ["TTFT", "TPOT", "SLO 200 ms", "SLO 40 ms", "ms", "rate of arrivals, requests/s (log scale)"]),
                ("goodput", ["goodput", "requests/s", "rate of arrivals, requests/s"]),
                ("pareto", ["SLO: TPOT 40 ms = 25 tokens/s", "output tokens/s, all users together"]),
                ("cdf", ["TTFT", "TPOT", "ITL", "E2E", "share of gaps", "arrival to last token, ms"]),
                ("timeline", ["token", "prefill", "seconds since the start of the run"]),
                ("load", ["requests under way", "receiving tokens"])):
            _, texts, _ = self.picture(name)
            for text in expected:
                self.assertIn(text, texts, name)
        for name in ("latency", "goodput"):
            self.assertIn("Highest requests/s that keeps the SLO: 8.35", self.picture(name)[1])

    def test_every_message_has_a_tick(self):
        bench = synthetic_bench.one_run(count=12)
        self.draw(bench)
        root, _, _ = self.picture("timeline")
        tokens, = (group for group in root.iter(f"{SVG}g") if group.get("id") == "tokens")
        strokes = "".join(path.get("d") for path in tokens.iter(f"{SVG}path")).count("M")
        self.assertEqual(strokes, sum(len(row["chunks"]) for row in bench[1][0]))

    def phases(self, kv_transfer, chunks):
        bench, runs = synthetic_bench.one_run(count=1)
        runs[0][0] |= {"scheduled": 1.0, "sent": 1.0, "ended": 9.0, "chunks": chunks, "timings_ms": {
            "queue": 250, "prefill": 500, "kv_transfer": kv_transfer, "ttft": 1000}}
        _, path = synthetic_bench.write(self.folder, bench, runs)[:2]
        return timeline_plot.phases_of(read_rows(path).runs[0].requests[0])

    def test_the_kv_cache_travels_behind_the_first_token(self):
        first = [("queue", 1.0, 1.25), ("prefill", 1.25, 1.75), ("rest", 1.75, 2.0)]
        two = [[2.0, 1], [3.0, 1]]
        self.assertEqual(self.phases(500, two), [*first, ("transfer", 2.0, 2.5)])
        self.assertEqual(self.phases(1500, two), [*first, ("transfer", 2.0, 3.0)])
        self.assertEqual(self.phases(0, two), first)
        self.assertEqual(self.phases(500, two[:1]), first)

    def test_lanes_of_rare_requests_begin_at_their_arrival(self):
        self.draw(synthetic_bench.one_run(count=40, rate=0.2))
        self.assertIn("milliseconds since its arrival", self.picture("timeline")[1])

    def test_kv_use_is_drawn_where_metrics_were_read(self):
        bench = synthetic_bench.one_run(count=30)
        self.draw(bench)
        _, texts, ids = self.picture("load")
        self.assertIn("KV blocks in use", texts)
        self.assertTrue(any("KV use was read every 0.5 s" in text for text in texts))
        self.assertFalse(any("between them is not seen" in text for text in texts))
        self.assertIn("kv-decode 127.0.0.1:9202", ids)
        for target in bench[0]["runs"][0]["server_metrics"]["targets"]:
            target["series"] = {name: points[:2] for name, points in target["series"].items()}
        self.draw(bench)
        self.assertTrue(any("2 readings: what rose" in text for text in self.picture("load")[1]))
        bench[0]["runs"][0]["server_metrics"] = None
        self.draw(bench)
        _, texts, _ = self.picture("load")
        self.assertNotIn("KV blocks in use", texts)
        self.assertTrue(any("KV use was read never: without --metrics" in text for text in texts))

    def test_natural_and_forced_ends_are_two_curves(self):
        natural = synthetic_bench.simulate(8, 40, 1, eos_after=lambda rng: rng.randint(1, 40))
        forced = synthetic_bench.simulate(8, 40, 1)
        runs = [synthetic_bench.described(rows, {}, f"run 1, {eos}", 8.0, eos)
                for rows, eos in ((natural, "honor"), (forced, "mask"))]
        self.draw((synthetic_bench.result(runs), [natural, forced]))
        _, texts, ids = self.picture("cdf")
        self.assertIn("ttft-1", ids)
        self.assertIn("8 requests/s, natural ends", texts)
        self.assertIn("8 requests/s, forced lengths (EOS masked)", texts)

    def test_all_requests_at_once_have_an_infinite_rate(self):
        result, runs = synthetic_bench.one_run(count=30)
        result["runs"][0]["rate"] = "inf"
        self.draw((result, runs))
        self.assertTrue(any("inf requests/s" in text for text in self.picture("cdf")[1]))

    def test_failures_are_marked(self):
        bench = synthetic_bench.one_run(count=30)
        synthetic_bench.fail(bench[1][0][7])
        self.draw(bench)
        self.assertIn("failed", self.picture("timeline")[1])

    def test_a_server_without_timings_and_answers_of_one_message(self):
        bench = synthetic_bench.one_run(count=30, timings=False, eos_after=lambda rng: 1)
        code, paths, _ = self.draw(bench)
        self.assertEqual((code, self.names(paths)), (0, OF_RUNS))
        self.assertIn("no samples: answers of one message", self.picture("cdf")[1])
        self.assertIn("until first token", self.picture("timeline")[1])
        self.assertNotIn("queue", self.picture("timeline")[1])

    def test_a_closed_loop_is_drawn_against_concurrency(self):
        bench = synthetic_bench.a_search(count=30, loads=(1, 2, 4))
        bench[0]["find_max"]["variable"] = "concurrency"
        self.assertEqual(self.draw(bench)[0], 0)
        self.assertIn("requests under way", self.picture("latency")[1])
        self.assertNotIn("arrivals", self.picture("goodput")[1])

    def test_a_search_that_found_nothing_says_so(self):
        bench = synthetic_bench.a_search(count=60, loads=(32, 64))
        self.assertIsNone(bench[0]["find_max"]["best"])
        self.assertEqual(self.draw(bench)[0], 0)
        self.assertIn("No requests/s was found", self.picture("latency")[1])
        self.assertTrue(any("the last load tried" in text for text in self.picture("cdf")[1]))

    def test_loads_that_were_not_as_planned_are_not_judged(self):
        bench = synthetic_bench.a_search(count=60, loads=(1, 2, 64))
        self.draw(bench)
        self.assertIn("breaks the SLO", self.picture("latency")[1])
        answer = "requests/s that keeps the SLO: at least 2.00; above that, at 64.0, this program was too slow"
        bench[0]["find_max"]["answer"] = answer
        bench[0]["points"][2] |= {"failed_metric": None, "client_limited": True, "saturated": True,
                                  "reason": "this program was late"}
        self.draw(bench)
        for name in OF_SEARCHES:
            _, texts, _ = self.picture(name)
            self.assertIn("not judged", texts)
            self.assertNotIn("breaks the SLO", texts)
        for name in ("latency", "goodput"):
            self.assertIn(answer.lower(), " ".join(self.picture(name)[1]).lower())

    def test_a_load_whose_requests_failed_breaks_the_slo(self):
        bench = synthetic_bench.a_search(count=20, loads=(1, 2))
        point = bench[0]["points"][1]
        point |= {"accepted": False, "failed_metric": None, "reason": "3 requests failed"}
        self.assertEqual([load.verdict for load in Result(bench[0]).loads], ["keeps", "breaks"])
        point["void"] = "no request was answered"
        self.assertEqual([load.verdict for load in Result(bench[0]).loads], ["keeps", "unjudged"])

    def test_a_late_repetition_does_not_hide_what_was_judged(self):
        bench = synthetic_bench.a_search(count=60, loads=(1, 2, 64))
        late = bench[0]["points"][1] | {"accepted": False, "client_limited": True}
        result = synthetic_bench.result(points=[*bench[0]["points"], late], slo=synthetic_bench.SLO,
                                        search=bench[0]["find_max"])
        self.assertEqual([load.verdict for load in Result(result).loads], ["keeps", "keeps", "breaks"])

    def test_without_rows_the_search_is_drawn(self):
        code, paths, complaints = self.draw(synthetic_bench.a_search(count=20), rows=False)
        self.assertEqual((code, self.names(paths)), (0, OF_SEARCHES))
        for name in OF_RUNS:
            self.assertRegex(complaints, f"(?m)^no {name}: .*--rows$")

    def test_a_bench_without_requests_draws_nothing(self):
        code, paths, complaints = self.draw((synthetic_bench.result(), []))
        self.assertEqual((code, paths, len(complaints.splitlines())), (0, [], 3))

    def test_names_of_loads_stand_apart(self):
        self.draw(synthetic_bench.a_search(count=60))
        root, _, ids = self.picture("pareto")
        self.assertGreaterEqual(sum(1 for i in ids if i and i.startswith("name-")), 6)
        boxes = [search_plots._name_box((0, 0), right, up, end, 24)
                 for right, up, end in search_plots.NAME_PLACES[:4]]
        for i, box in enumerate(boxes):
            self.assertFalse(any(search_plots._overlap(box, other) for other in boxes[i + 1:]))

    def test_logarithmic_axes_say_so(self):
        self.draw(synthetic_bench.a_search(count=60))
        self.assertIn("rate of arrivals, requests/s (log scale)", self.picture("latency")[1])
        self.assertIn("rate of arrivals, requests/s", self.picture("goodput")[1])

    def test_percentiles_need_samples(self):
        self.draw(synthetic_bench.one_run(count=30))
        titles = [text for text in self.picture("cdf")[1] if text.startswith("P50")]
        self.assertTrue(titles)
        self.assertFalse(any("P99" in title and "P90" not in title for title in titles))
        self.assertFalse(cdf_plot.carries(200, 99))
        self.assertTrue(cdf_plot.carries(400, 99))

    def test_png_is_800_pixels_wide(self):
        _, paths, _ = self.draw(synthetic_bench.one_run(count=20), "--format", "png")
        for path in paths:
            with open(path, "rb") as file:
                header = file.read(24)
            self.assertEqual(header[:8], b"\x89PNG\r\n\x1a\n")
            self.assertEqual(struct.unpack(">I", header[16:20])[0], 800)

    def test_the_same_data_give_the_same_files(self):
        contents = []
        for _ in range(2):
            _, paths, _ = self.draw(synthetic_bench.one_run(count=20))
            contents.append([self.content(path) for path in paths])
        self.assertEqual(*contents)

    def test_wrong_input_is_exit_2_with_a_reason(self):
        result, rows = synthetic_bench.write(self.folder, *synthetic_bench.one_run(count=10))
        blocked = os.path.join(result, "below-a-file")
        for arguments, part in (
                ((rows, rows, "--out", self.out), "not JSON"),
                ((result, result, "--out", self.out), "baton.bench.rows/1"),
                ((result, "absent.jsonl", "--out", self.out), "absent.jsonl cannot be read"),
                ((result, rows, "--out", blocked), "cannot be made"),
                ((result, rows), "--out"),
                ((result, rows, "--out", self.out, "--format", "gif"), "gif")):
            code, paths, complaints = self.call(*arguments)
            self.assertEqual((code, paths), (2, []), arguments)
            self.assertIn(part, complaints)
            self.assertNotIn("Traceback", complaints)

    def test_curves_keep_the_slowest(self):
        samples = [float(i) for i in range(10000)]
        x, y = cdf_plot.curve(samples)
        self.assertLess(len(x), 2000)
        self.assertEqual((x[-1], y[-1]), (9999.0, 1.0))
        self.assertEqual(x[-100:], samples[-100:])
        self.assertEqual(cdf_plot.percentile([1.0, 2.0, 3.0, 4.0], 50), 2.5)

    def test_concurrency_counts_who_waits_and_who_answers(self):
        _, runs = synthetic_bench.one_run(count=2)
        for row, (sent, first, ended) in zip(runs[0], ((0.0, 1.0, 4.0), (2.0, 3.0, 5.0))):
            row |= {"scheduled": sent, "sent": sent, "chunks": [[first, 1], [ended, 1]], "ended": ended}
        _, path = synthetic_bench.write(self.folder, synthetic_bench.result(
            [synthetic_bench.described(runs[0], {}, "run 1", 1.0)]), runs)
        self.assertEqual(load_plot.under_way(read_rows(path).runs[0]),
                         ([0, 1, 2, 3, 4, 5], [1, 0, 1, 0, 0, 0], [0, 1, 1, 2, 1, 0]))

    def test_many_steps_are_drawn_as_means_and_peaks(self):
        bench = synthetic_bench.one_run(count=700)
        self.draw(bench)
        self.assertTrue(any(text.startswith("peak of every") for text in self.picture("load")[1]))
        times, values = [0.0, 75.0, 150.5, 300.0], [2, 4, 0, 0]
        means = load_plot.span_means(times, values, 1.0)
        self.assertEqual((means[0], means[75], means[149], means[150], means[151]), (2, 4, 4, 2, 0))
        peaks = load_plot.span_peaks(times, values, 1.0)
        self.assertEqual((peaks[74], peaks[75], peaks[150], peaks[151]), (2, 4, 4, 0))


if __name__ == "__main__":
    unittest.main()
