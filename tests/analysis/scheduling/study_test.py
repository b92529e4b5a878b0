"""The study's own steps against a simulator that answers by a formula; and the smallest study of the real one."""

import contextlib
import dataclasses
import io
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from baton_analysis.errors import InputError
from baton_analysis.scheduling import __main__ as scheduling
from baton_analysis.scheduling import costs, study
from baton_analysis.scheduling.settings import SETTINGS, Column, Setting
from baton_analysis.scheduling.simulate import Load, Simulator

SCRIPT = pathlib.Path(__file__).resolve().parents[3] / "scripts" / "scheduling"
DRAWN = Setting("drawn", "Drawn lengths", 100, 50, 1024, 8, "ttft=1s", costs.L4, lengths=("64:128", "exp:20"),
                pool_tokens=4000)  # yapf: disable


class Formula:
    """A pool is full from 2000 tokens down; "reserve:N" is the better the nearer N is to 128."""

    def __init__(self):
        self.asked = []

    def run(self, load, rate, policies, predictor, more, *, cost, pool):
        self.asked.append((load.seed, rate, policies, predictor, tuple(more), pool))
        e2e = 100.0 + load.seed
        name, _, number = policies[0].partition(":")
        if number:
            e2e += abs(float(number) - 128)
        if more:
            e2e += 10 * abs(float(more[-1]) - 0.9)
        summary = {"count": 100, "mean": e2e, "p50": e2e, "p90": 1000.0 * load.seed, "p99": 2 * e2e, "max": 3 * e2e}
        run = {"ttft_ms": summary, "tpot_ms": summary, "e2e_ms": summary, "completed": 100, "refused": 0,
               "output_throughput": 1, "request_goodput": 1, "goodput_share": 1, "preemptions": 0, "kv_use_p50": 0.5,
               "kv_use_p95": 0.95 if pool <= 2000 else 0.5, "wasted_share": 0}  # yapf: disable
        return {policy: run for policy in policies}


def quietly(work, *arguments):
    with contextlib.redirect_stderr(io.StringIO()) as err, contextlib.redirect_stdout(io.StringIO()):
        return work(*arguments), err.getvalue()


class StudyTest(unittest.TestCase):

    def setUp(self):
        self.work = self.enterContext(tempfile.TemporaryDirectory())

    def options(self, *columns, **more):
        return study.Options(work=self.work, loads=(0.5, 0.85), seeds=(1, 2), training_seeds=(6, 7),
                             columns=(Column("fcfs", "off", True), *columns), **more)

    def test_the_pool_shrinks_until_fcfs_fills_it(self):
        formula = Formula()
        found, _ = quietly(study.run, [DRAWN], formula, self.options())
        setting = found["settings"][0]
        self.assertEqual(setting["pool_tokens"], int(0.75 * int(0.75 * int(0.75 * 4000))))
        self.assertEqual(setting["kv_use_p95"], 0.95)
        # 90 of 100 answers in as many seconds as the seed says.
        self.assertEqual(setting["capacity"], [90, 45])
        rates = {rate for seed, rate, _, _, _, pool in formula.asked if seed == 2 and pool == setting["pool_tokens"]}
        self.assertEqual(rates, {0, 0.5 * 45, 0.85 * 45})

    def test_what_has_a_number_takes_the_one_that_did_best_on_training_seeds(self):
        formula = Formula()
        reserve = Column("reserve", "off", False, tuned=(64, 128, 256))
        quantile = Column("past-future", "learnt", True, flag="--policy-quantile", tuned=(0.5, 0.9),
                          more=("--policy-line", "9"), note="line of 9")
        found, _ = quietly(study.run, [DRAWN], formula, self.options(reserve, quantile))
        setting = found["settings"][0]
        self.assertEqual([each["chosen"] for each in setting["tuned"]], [128, 0.9])
        tried = {seed for seed, _, policies, _, _, _ in formula.asked if policies == ["reserve:64"]}
        self.assertEqual(tried, {6, 7})
        columns = {column["policy"]: column for column in setting["loads"][0]["columns"]}
        self.assertEqual(columns["reserve"]["figures"]["e2e_ms.mean"], [101, 102])
        self.assertEqual(columns["past-future"]["given"], 0.9)
        self.assertIn((1, 0.5 * 90, ["past-future"], "learnt", ("--policy-line", "9", "--policy-quantile", "0.9"), setting["pool_tokens"]),
                      formula.asked)  # yapf: disable

    def test_predictor_files_are_for_recorded_answers_only(self):
        found, _ = quietly(study.run, [DRAWN], Formula(), self.options(Column("remaining", "file", True)))
        columns = found["settings"][0]["loads"][0]["columns"]
        self.assertEqual([column["policy"] for column in columns], ["fcfs"])

    def test_settings_without_their_data_are_left_out_aloud(self):
        found, err = quietly(study.run, list(SETTINGS[:1]), Formula(), self.options())
        self.assertEqual(found["settings"], [])
        self.assertIn("conv-l4 is left out: it needs --azure", err)
        recorded = [each for each in SETTINGS if each.answers]
        _, err = quietly(study.run, recorded, Formula(), self.options(answers="somewhere"))
        self.assertIn("it needs --cpu-cost", err)


class SimulatorTest(unittest.TestCase):

    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.cost = os.path.join(self.folder, "cost.json")
        with open(self.cost, "w", encoding="utf-8") as file:
            json.dump(costs.reckon(costs.LLAMA_8B, costs.H100), file)
        self.simulator = Simulator(os.environ["BATON"], self.folder)
        self.load = Load(dataclasses.replace(DRAWN, requests=20), 3)

    def run_once(self, **more):
        arguments = {"rate": 5.0, "policies": ["fcfs"], "predictor": "off", **more}
        return self.simulator.run(self.load, arguments["rate"], arguments["policies"], arguments["predictor"], [],
                                  cost=self.cost, pool=4096)

    def test_what_was_simulated_is_not_simulated_again(self):
        first = self.run_once()
        self.assertEqual(first["fcfs"]["refused"], 0)
        kept = os.listdir(os.path.join(self.folder, "runs"))
        self.assertEqual(self.run_once(), first)
        self.assertEqual(os.listdir(os.path.join(self.folder, "runs")), kept)
        with open(self.cost, "a", encoding="utf-8") as file:
            file.write("\n")  # another file is another simulation
        self.run_once()
        self.assertEqual(len(os.listdir(os.path.join(self.folder, "runs"))), 2)

    def test_all_at_once_is_faster_than_one_after_the_other(self):
        self.assertGreater(self.run_once(rate=0)["fcfs"]["request_throughput"],
                           2 * self.run_once()["fcfs"]["request_throughput"])

    def test_errors_name_the_command_and_what_it_said(self):
        with self.assertRaisesRegex(InputError, "sim --json.*unknown policy 'best'"):
            self.run_once(policies=["best"])


class SmallestStudyTest(unittest.TestCase):

    def test_it_runs_and_fills_a_page(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        result, page = os.path.join(folder, "r.json"), os.path.join(folder, "page.md")
        with open(page, "w", encoding="utf-8") as file:
            file.write("# Mine\n\n<!-- settings -->\n<!-- end settings -->\n\nMy words.\n")
        done = subprocess.run([SCRIPT, "run", "--small", "--settings", "mixed-h100", "--work", folder, "--out", result],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("mixed-h100: a pool of", done.stderr)
        with open(result, encoding="utf-8") as file:
            found = json.load(file)
        policies = [column["policy"] for column in found["settings"][0]["loads"][0]["columns"]]
        self.assertIn("fcfs", policies)
        self.assertIn("reserve-max", policies)
        code, _ = quietly(scheduling.main, ["page", result, "--page", page, "--pictures", os.path.join(folder, "p")])
        self.assertEqual(code, 0)
        self.assertGreater(os.path.getsize(os.path.join(folder, "p", "mixed-h100.svg")), 5000)
        with open(page, encoding="utf-8") as file:
            text = file.read()
        self.assertIn("| Answers of two kinds, 8B on an H100 with a part of its memory | 2 × 150 |", text)
        self.assertIn("My words.", text)

    def test_a_study_of_nothing_and_a_page_of_no_result_are_errors(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        common = ["--work", folder, "--out", os.path.join(folder, "r.json")]
        code, err = quietly(scheduling.main, ["run", "--baton", os.environ["BATON"], "--settings", "conv-l4", *common])
        self.assertEqual(code, 2)
        self.assertIn("every setting lacks what it needs", err)
        bad = os.path.join(folder, "bad.json")
        with open(bad, "w", encoding="utf-8") as file:
            file.write('{"schema": "else"}')
        code, err = quietly(scheduling.main, ["page", bad, "--page", folder + "/p.md", "--pictures", folder])
        self.assertEqual(code, 2)
        self.assertIn("expected baton.scheduling_study/1", err)


if __name__ == "__main__":
    unittest.main()
