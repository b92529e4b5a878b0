"""The figures that scripts/scheduling_service.py makes of runs, held against numbers worked out by hand."""

import json
import math
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import scheduling_figures as figures  # noqa: E402
import scheduling_service as service  # noqa: E402


def row(scheduled, times, error=None):
    return {"scheduled": scheduled, "chunks": [[at, 1] for at in times], "output_tokens": len(times), "error": error}


def rounds(*values, figure="e2e_mean"):
    return {number: {figure: value} for number, value in enumerate(values)}


class FiguresTest(unittest.TestCase):
    def test_latencies_count_from_the_scheduled_arrival(self):
        got = figures.latencies(row(1, [1.5, 1.6, 1.9]))
        self.assertAlmostEqual(got["ttft"], 500)
        self.assertAlmostEqual(got["e2e"], 900)
        self.assertAlmostEqual(got["tpot"], 200)
        self.assertNotIn("tpot", figures.latencies(row(1, [1.5])), "one token has no pace")

    def test_percentiles_interpolate(self):
        self.assertEqual(figures.percentile([4, 1, 2, 3], 0.5), 2.5)
        self.assertAlmostEqual(figures.percentile(range(101), 0.99), 99)
        self.assertIsNone(figures.percentile([], 0.5))

    def test_a_run_counts_what_was_scheduled_in_its_window_and_failures_against_goodput(self):
        rows = [row(0.5, [0.6, 0.7]), row(2, [2.1, 2.2]), row(3, [3.5, 3.6]), row(3, [], error={"code": "X"}),
                row(6, [6.1])]
        got = figures.run_figures(rows, 1, 5, {"ttft": 200})
        self.assertEqual((got["requests"], got["failed"]), (3, 1))
        self.assertAlmostEqual(got["goodput"], 1 / 4)
        self.assertAlmostEqual(got["ttft_mean"], 300)
        self.assertAlmostEqual(got["ttft_max"], 500)
        empty = figures.run_figures([], 0, 1, {})
        self.assertIsNone(empty["ttft_mean"])

    def test_capacity_leaves_the_last_tenth_out(self):
        rows = [row(0, [at / 10]) for at in range(1, 10)] + [row(0, [60])]
        self.assertAlmostEqual(figures.rate_of_most(rows), 10)

    def test_the_interval_is_students_in_logarithms(self):
        mean, low, high = figures.interval([1, 4])
        self.assertAlmostEqual(mean, 2)
        self.assertAlmostEqual(low * high, 4)
        # Logarithms 0 and 1.386: deviation .980, over √2 .693, times 12.706.
        self.assertAlmostEqual(math.log(high / 2), 12.706 * math.log(2))
        self.assertEqual(figures.interval([1, 1, 1]), (1, 1, 1))
        self.assertEqual(figures.interval([3])[1:], (None, None))

    def test_policies_are_compared_round_by_round(self):
        runs = {"fcfs": rounds(100, 200, 400), "other": rounds(50, 100, 200)}
        mean, low, high = figures.compare(runs, "other", "fcfs", "e2e_mean")
        for value in (mean, low, high):
            self.assertAlmostEqual(value, 0.5, msg="rounds differ, their ratios do not")
        self.assertIsNone(figures.compare(runs, "other", "fcfs", "absent"))

    def test_a_policy_could_be_the_default_if_its_mean_is_below_and_its_tail_not_above(self):
        def load(means, tails):
            return {n: {"e2e_mean": mean, "e2e_p99": tail} for n, (mean, tail) in enumerate(zip(means, tails))}

        runs = {"fcfs": load([100, 100, 100], [500, 500, 500]),
                "good": load([80, 81, 79], [490, 510, 500]),
                "chance": load([50, 130, 99], [500, 500, 500]),
                "tail": load([50, 50, 50], [600, 601, 602]),
                "slow": load([101, 102, 103], [400, 400, 400])}
        verdicts = {name: figures.better(runs, name, ["fcfs"]) for name in runs if name != "fcfs"}
        self.assertEqual(verdicts, {"good": (True, True), "chance": (True, False), "tail": (False, False),
                                    "slow": (False, False)})
        self.assertEqual(figures.better({"fcfs": load([2], [2]), "x": load([1], [1])}, "x", ["fcfs"]), (False, False),
                         "one round has no interval")

    def test_the_table_has_every_policy_and_says_where_there_is_nothing(self):
        full = {**{name: 10.0 for name in figures.FIGURES}, "goodput": 0.0, "preemptions": 3, "recomputed": 40,
                "kv_p95": 0.95, "waiting_p95": 1, "ttft_max": 77}
        text = figures.table({"fcfs": {0: full, 1: full}, "other": {0: full, 1: full}}, ["fcfs", "other"])
        lines = text.splitlines()
        self.assertEqual(lines[0], "| | fcfs | other / fcfs |")
        self.assertIn("| e2e p99, ms | 10 | 1.00 (1.00–1.00) |", lines)
        self.assertIn("| goodput, requests/s | 0 | – |", lines)
        self.assertIn("| longest TTFT, ms (each) | 77 | 77 |", lines)
        self.assertEqual({line.count("|") for line in lines}, {4})


class ServiceTest(unittest.TestCase):
    def test_series_are_added_up_by_their_labels(self):
        page = '# HELP a x\na{k="1",z="y"} 2\na{k="2",z="y"} 3\nab{k="1"} 100\n'
        self.assertEqual(service.metric(page, "a"), 5)
        self.assertEqual(service.metric(page, "a", k="2", z="y"), 3)

    def test_prompts_are_the_same_for_a_seed_and_have_limits_of_their_own_if_asked(self):
        with tempfile.TemporaryDirectory() as folder:
            made = []
            for name, seed, limits in (("a", 1, "one"), ("b", 1, "own"), ("c", 2, "one")):
                path = pathlib.Path(folder) / name
                service.write_prompts(path, seed, limits)
                made.append([json.loads(line) for line in path.read_text().splitlines()])
        one, own, other = ([line["prompt"] for line in lines] for lines in made)
        self.assertEqual(one, own)
        self.assertNotEqual(one, other)
        self.assertEqual({line["max_tokens"] for line in made[0]}, {service.MAX_TOKENS})
        self.assertEqual({line["max_tokens"] for line in made[1]}, set(service.OWN_LIMITS.values()))
        self.assertTrue(all(prompt.endswith("<|assistant|>") for prompt in one))

    def test_what_is_named_twice_is_refused_before_anything_is_served(self):
        for flags in (["--policies", "fcfs,boost,fcfs"], ["--loads", "0.7,0.70"]):
            done = subprocess.run([sys.executable, "-B", ROOT / "scripts/scheduling_service.py", "--bin", "/absent", *flags],
                                  capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(f"{flags[0]} names one twice", done.stderr)


if __name__ == "__main__":
    unittest.main()
