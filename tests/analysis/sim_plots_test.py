"""The pictures of `baton sim`: what is drawn, how files are joined, and what is refused."""

import contextlib
import io
import json
import os
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

from baton_analysis import sim_pictures, sim_plots
from baton_analysis.sim_result import SimResult

SVG = "{http://www.w3.org/2000/svg}"
SHARES = [0, 0.5, 0.99, 1]
OF_ONE = ["latency", "service", "cdf", "timeline"]


def summary(p50, tail):
    return {"count": 100, "mean": 1.2 * p50, "p50": p50, "p90": 0.8 * tail, "p99": tail,
            "at": [0.5 * p50, p50, tail, 1.1 * tail]}


def run(seed, slow=1.0, **other):
    return {"seed": seed, "completed": 100, "refused": 0, "duration_s": 10, "request_throughput": 10,
            "output_throughput": 2000 / slow, "ttft_ms": summary(50 * slow, 400 * slow),
            "tpot_ms": summary(20 * slow, 40 * slow), "e2e_ms": summary(3000 * slow, 9000 * slow),
            "request_goodput": 9, "goodput_share": 0.9 / slow, "preemptions": int(3 * slow),
            "kv_use_p50": 0.5, "kv_use_p95": 0.93, "wasted_share": 0.01,
            "over_time": {"every_s": 0.5, "kv_use": [0.1, 0.6, 0.9], "waiting": [0, 4 * slow, 1]}, **other}


def result(policies, seeds=(1, 2, 3), **setup):
    return {"schema": "baton.sim/1", "setup": {"rate": "8", "policy": ",".join(policies), "predictor": "off",
                                               "seed": "1", "runs": str(len(seeds)), "slo": "ttft=200ms,tpot=50ms",
                                               **setup},
            "shares": SHARES,
            "policies": [{"policy": name, "predictor": setup.get("predictor", "off"),
                          "runs": [run(seed, 1 + 0.3 * number + 0.01 * seed) for seed in seeds]}
                         for number, name in enumerate(policies)]}


class SimPlotsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.out = os.path.join(self.folder, "plots")

    def draw(self, *contents, more=()):
        """Exit code, names of the pictures, complaints."""
        paths = []
        for number, content in enumerate(contents):
            paths.append(os.path.join(self.folder, f"{number}.json"))
            with open(paths[-1], "w", encoding="utf-8") as file:
                file.write(content if isinstance(content, str) else json.dumps(content))
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = sim_plots.main([*paths, "--out", self.out, *more])
        return code, [os.path.basename(path).partition(".")[0] for path in out.getvalue().splitlines()], err.getvalue()

    def picture(self, name):
        root = ElementTree.parse(os.path.join(self.out, f"{name}.svg")).getroot()
        texts = ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
        return texts, [group.get("id") for group in root.iter(f"{SVG}g") if group.get("id")]

    def test_one_file_has_a_row_or_a_line_for_each_policy(self):
        code, names, complaints = self.draw(result(["fcfs", "boost"]))
        self.assertEqual((code, names, complaints), (0, OF_ONE, ""))
        for name in OF_ONE:
            texts, ids = self.picture(name)
            self.assertIn("fcfs", texts, name)
            self.assertIn("boost", texts, name)
            if name in ("cdf", "timeline"):
                key = {"cdf": "ttft_ms", "timeline": "kv_use"}[name]
                self.assertEqual([i for i in ids if i.startswith(key)], [f"{key}-0", f"{key}-1"])
        self.assertIn("arrival to first token · SLO 200 ms, dashed", self.picture("latency")[0])
        self.assertIn("SLO 50 ms", self.picture("cdf")[0])
        self.assertIn("simulated · means of 3 runs, with 95 % intervals", self.picture("service")[0])

    def test_limits_are_read_as_the_program_reads_them(self):
        for slo, limits in (("ttft=1.5s,tpot=50ms,percentile=95", {"ttft": 1500, "tpot": 50}),
                            ("ttft=200,percentile=90,tpot=30", {"ttft": 200, "tpot": 30}),
                            ("e2e=2h,ttft=2m", {"e2e": 7.2e6, "ttft": 1.2e5}), ("", {})):
            self.assertEqual(SimResult([result(["fcfs"], slo=slo)]).limits, limits)
        self.draw(result(["fcfs"], slo="ttft=200,tpot=50"))
        self.assertIn("arrival to first token · SLO 200 ms, dashed", self.picture("latency")[0])

    def test_files_that_differ_in_the_load_are_an_axis(self):
        code, names, complaints = self.draw(*(result(["fcfs", "boost"], rate=rate) for rate in ("9", "7", "8")))
        self.assertEqual((code, names, complaints), (0, [*OF_ONE, "load"], ""))
        texts, ids = self.picture("load")
        self.assertIn("Policies against rate of arrivals, requests/s", texts)
        self.assertIn("e2e_ms-p99-1", ids)
        self.assertIn("simulated · 9 requests/s · means of 3 runs, with 95 % intervals",
                      self.picture("latency")[0], "the others are of the highest load")

    def test_what_else_differs_stands_in_the_names(self):
        joined = SimResult([result(["fcfs"]), result(["fcfs", "boost"], predictor="oracle"),
                            result(["fcfs"], predictor="oracle", **{"prefix-caching": "off"})])
        self.assertIsNone(joined.axis)
        self.assertEqual(joined.names, ["fcfs · off · prefix-caching not set", "fcfs · oracle · prefix-caching not set",
                                        "boost · oracle · prefix-caching not set", "fcfs · oracle · prefix-caching off"])
        routed = result(["fcfs", "fcfs"])
        for entry, routing in zip(routed["policies"], ("load", "prefix")):
            entry["routing"] = routing
        self.assertEqual(SimResult([routed]).names, ["fcfs · load", "fcfs · prefix"])
        _, _, complaints = self.draw(result(["fcfs"]), result(["fcfs"], predictor="oracle"))
        self.assertIn("no load: it needs files that differ in one number", complaints)

    def test_runs_of_several_files_are_joined_by_their_seeds(self):
        joined = SimResult([result(["fcfs"], seeds=(1, 2)), result(["fcfs"], seeds=(2, 3), seed="2")])
        self.assertEqual([[r["seed"] for r in case.runs] for case in joined.cases], [[1, 2, 3]])

    def test_means_have_intervals_of_students_t(self):
        case = SimResult([result(["fcfs"])]).cases[0]
        case.runs = [run(seed, kv_use_p95=value) for seed, value in ((1, 1.0), (2, 2.0), (3, 6.0))]
        self.assertAlmostEqual(case.mean("kv_use_p95"), 3)
        self.assertAlmostEqual(case.half("kv_use_p95"), 4.303 * 7 ** 0.5 / 3 ** 0.5)
        case.runs = case.runs[:1]
        self.assertEqual(case.half("kv_use_p95"), 0)

    def test_figures_that_are_missing_are_left_out(self):
        lone = result(["fcfs", "none"], seeds=(1,), slo="")
        for figures in lone["policies"]:
            figures["runs"][0]["goodput_share"] = None
        lone["policies"][1]["runs"][0] |= {"ttft_ms": None, "tpot_ms": None, "e2e_ms": None, "completed": 0}
        code, names, _ = self.draw(lone)
        self.assertEqual((code, names), (0, OF_ONE))
        self.assertNotIn("Within the SLO, %", self.picture("service")[0])
        code, names, _ = self.draw(lone, {**lone, "setup": {**lone["setup"], "rate": "9"}})
        self.assertEqual((code, names), (0, [*OF_ONE, "load"]))

    def test_more_columns_than_can_be_told_apart_have_rows_only(self):
        many = [f"p{number}" for number in range(sim_pictures.MOST_LINES + 1)]
        _, names, complaints = self.draw(result(many))
        self.assertEqual(names, ["latency", "service"])
        self.assertIn("no cdf: 13 columns, and 12 lines can be told apart", complaints)

    def test_wrong_files_are_told(self):
        for content, words in (("[", "is not JSON"), ("[1]", "has schema None"),
                               ({"schema": "baton.bench/1"}, "expected 'baton.sim/1'"),
                               ({"schema": "baton.sim/1", "setup": {"rate": "1"}}, "lacks shares, policies"),
                               ({**result(["fcfs"]), "policies": [{"policy": "fcfs", "runs": [{"seed": 1}]}]},
                                "does not fit latency")):
            code, names, complaints = self.draw(content)
            self.assertEqual((code, names), (2, []), content)
            self.assertIn(words, complaints)
        self.assertEqual(self.draw(result(["fcfs"]), more=("--out", "/dev/null/x"))[0], 2)

    def test_the_same_figures_give_the_same_file(self):
        contents = []
        for _ in range(2):
            self.draw(result(["fcfs", "boost"]))
            with open(os.path.join(self.out, "cdf.svg"), "rb") as file:
                contents.append(file.read())
        self.assertEqual(*contents)


if __name__ == "__main__":
    unittest.main()
