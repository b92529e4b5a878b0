"""Train, evaluate and study from the outside, with what Debian's Python has."""

import base64
import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import numpy as np

import synthetic_dataset
from dataset_test import DatasetCase
from baton_analysis.errors import InputError
from baton_analysis.predict import __main__ as predict
from baton_analysis.predict import aims, bins, file, judging, models, train
from baton_analysis.predict.dataset import Answer
from baton_analysis.predict.frame import Frame, frame_of
from baton_analysis.markdown import write_page

SCRIPT = pathlib.Path(__file__).resolve().parents[3] / "scripts" / "eos"


class TrainTest(DatasetCase):

    def setUp(self):
        super().setUp()
        self.out = os.path.join(os.path.dirname(self.folder), "out.json")

    def run_main(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = predict.main(list(arguments))
        return code, out.getvalue(), err.getvalue()

    def train(self, kind, *more):
        return self.run_main("train", self.folder, "--model", self.model, "--kind", kind, "--out",
                             self.out, *more)

    def evaluate(self, *arguments):
        return self.run_main("evaluate", self.folder, *arguments, "--model", self.model)

    def test_a_file_is_calibrated_anew_and_otherwise_stays(self):
        synthetic_dataset.write(self.folder, prompts=60)
        self.assertEqual(self.train("survival")[0], 0)
        trained = file.read(self.out)
        again = self.out + ".again"
        code, out, _ = self.run_main("train", self.folder, "--model", self.model, "--calibrate",
                                     self.out, "--out", again)
        self.assertEqual(code, 0)
        self.assertIn("calibrated on", out)
        found = file.read(again)
        self.assertEqual(found["model"], trained["model"])
        # No limit of this data set reaches as far as the last bin, and each reaches the first.
        self.assertEqual(len(found["calibration"][-1]["x"]), 1)
        self.assertGreater(len(found["calibration"][0]["x"]), 2)
        code, _, error = self.run_main("train", self.folder, "--model", self.model, "--calibrate",
                                       self.out + ".missing", "--out", again)
        self.assertEqual(code, 2)
        self.assertIn("cannot be read", error)

    def test_a_file_is_written_and_judged(self):
        synthetic_dataset.write(self.folder, prompts=60, ceiling=True)
        self.assertEqual(self.train("survival")[0], 0)
        body = file.read(self.out)
        self.assertEqual(body["model_fingerprint"], "synthetic")
        # A service's classes are what its clients name: families would never be asked for.
        self.assertEqual(set(body["model"]["classes"]), {"all"})
        code, text, _ = self.evaluate(self.out)
        self.assertEqual(code, 0)
        for words in ("## T 0.8: story (", "T 0.8, cut: answer", "all (held out)",
                      "M0 survival per class", "M0 of a file", "M1 eos_prob", "false alarms",
                      "Against the ceiling"):
            self.assertIn(words, text)

    def test_figures_as_json(self):
        synthetic_dataset.write(self.folder, prompts=60, ceiling=True)
        code, text, _ = self.evaluate("--json")
        self.assertEqual(code, 0)
        found = json.loads(text)
        survival = found["models"]["M0 survival per class"]["arms"]["T 0.8"]["story"]
        at = survival["horizons"]["4"]
        self.assertEqual(at["skill"]["value"], 0)
        self.assertTrue(at["brier"]["low"] < at["brier"]["value"] < at["brier"]["high"])
        self.assertLess(at["false_alarms"]["value"], 0.1)
        # Stories here end by a chance that stays the same: nothing is known beforehand.
        self.assertLess(abs(survival["horizons"]["16"]["auroc"]["value"] - 0.5), 0.15)
        self.assertEqual(survival["remaining"]["mae_against_m0"]["value"], 1)
        cut = found["models"]["M0 survival per class"]["arms"]["T 0.8, cut"]["story"]
        self.assertLess(cut["horizons"]["16"]["rows"], cut["rows"])

    def test_the_seed_experiments_rule_says_what_an_alarm_is_worth(self):
        synthetic_dataset.write(self.folder, prompts=40)
        self.assertEqual(self.train("thresholds")[0], 0)
        code, text, _ = self.evaluate(self.out, "--json")
        self.assertEqual(code, 0)
        self.assertEqual(list(json.loads(text)["models"]),
                         ["M0 survival per class", "M1 eos_prob > 0.5 or mean > 0.3",
                          "M1 of a file"])  # yapf: disable

    def test_what_does_not_fit_is_told(self):
        synthetic_dataset.write(self.folder, prompts=20)
        for arguments, words in ((("train", self.folder, "--model", self.folder, "--out", self.out),
                                  "tokenizer.json"), (("train", self.model, "--model", self.model,
                                                       "--out", self.out), "no rows.jsonl"),
                                 (("train", self.folder, "--model", self.model, "--kind", "probe",
                                   "--out", self.out), "needs projections"),
                                 (("evaluate", self.folder, "absent", "--model", self.model),
                                  "absent cannot be read"), (("evaluate", self.folder, __file__,
                                                              "--model", self.model),
                                                             "no predictor file")):
            code, _, complaint = self.run_main(*arguments)
            self.assertEqual(code, 2)
            self.assertIn(words, complaint)
        self.assertEqual(self.run_main("draw")[0], 2)

    def test_a_file_of_another_model_is_refused(self):
        dataset = self.written(prompts=10)
        self.assertEqual(self.train("survival")[0], 0)
        dataset.fingerprint = "another"
        with self.assertRaisesRegex(InputError, "trained on the model 'synthetic'"):
            models.of_file(self.out, dataset)

    def test_a_file_that_reads_other_directions_is_refused(self):
        dataset = self.written(prompts=10, projections=True)
        width, hidden = synthetic_dataset.WIDTH, 4
        numbers = np.arange(width * hidden, dtype="<f4")
        logistic = {"kind": "logistic", "weights": file.encoded(np.zeros(bins.COUNT), "<f8"),
                    "bias": [0.0] * bins.COUNT}  # yapf: disable

        def written(dims):
            part = numbers[:dims * hidden]
            file.write(self.out, file.body_of(
                fingerprint="synthetic", name="probe", made_by="test", tail_mean=2048.0, calibration=None,
                probe={"layer": None, "dims": dims, "hidden": hidden, "directions": file.encoded(part, "<f4"),
                       "biases": file.encoded(np.zeros(dims), "<f4")},
                features=["probe[0]"], mean=[0.0], scale=[1.0], model=logistic, metrics={}))  # yapf: disable

        written(width - 1)
        with self.assertRaisesRegex(InputError, f"reads {width - 1} directions"):
            models.of_file(self.out, dataset)
        written(width)
        models.of_file(self.out, dataset)
        for payload, refused in ((numbers, False), (numbers[::-1], True)):
            with open(os.path.join(self.folder, "probe.json"), "w", encoding="utf-8") as out:
                json.dump({"dims": width, "hidden": hidden,
                           "payload": base64.b64encode(payload.astype("<f4").tobytes()).decode()}, out)
            if refused:
                with self.assertRaisesRegex(InputError, "recorded with the same probe"):
                    models.of_file(self.out, dataset)
            else:
                models.of_file(self.out, dataset)

    def test_what_to_type_where_packages_are_missing(self):
        synthetic_dataset.write(self.folder, prompts=20)
        hidden = {name: None for name in ("sklearn", "sklearn.linear_model", "torch")}
        for name in ("logistic", "networks"):
            sys.modules.pop(f"baton_analysis.predict.{name}", None)
        with mock.patch.dict(sys.modules, hidden):
            for kind in ("logistic", "gru"):
                code, _, complaint = self.train(kind)
                self.assertEqual(code, 2)
                self.assertIn("type: scripts/eos setup", complaint)

    def test_the_script_finds_the_package(self):
        synthetic_dataset.write(self.folder, prompts=10)
        done = subprocess.run([SCRIPT, "train", self.folder, "--model", self.model, "--kind", "survival",
                               "--out", self.out], capture_output=True, text=True, timeout=120,
                              env=os.environ | {"BATON_PYTHON": sys.executable})  # yapf: disable
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("M0 survival per class", done.stdout)

    def test_a_study_keeps_what_a_person_wrote(self):
        synthetic_dataset.write(self.folder, prompts=40, ceiling=True)
        folder = os.path.dirname(self.folder)
        page = os.path.join(folder, "study.md")
        with open(page, "w", encoding="utf-8") as out:
            out.write("# Title\n\n<!-- families -->\nold\n<!-- end families -->\n\nWords.\n")
        for _ in range(2):  # the second time out of the files of the first
            code, _, complaint = self.run_main("study", self.folder, "--model",
                                               self.model, "--out", page, "--work",
                                               os.path.join(folder, "work"), "--kinds", "survival",
                                               "--jobs", "2")
            self.assertEqual((code, complaint), (0, ""))
        with open(page, encoding="utf-8") as written:
            text = written.read()
        self.assertIn("# Title", text)
        self.assertIn("Words.", text)
        self.assertNotIn("old", text)
        self.assertEqual(text.count("### Story:"), 1)
        self.assertEqual(sorted(os.listdir(os.path.join(folder, "study"))),
                         ["auroc.svg", "calibration.svg", "remaining.svg"])
        self.assertIn("false alarms 4", text)

    def test_a_study_takes_only_files_of_its_rows_and_options(self):
        synthetic_dataset.write(self.folder, prompts=40)
        folder = os.path.dirname(self.folder)
        work = os.path.join(folder, "work")
        study = lambda *more: self.run_main("study", self.folder, "--model", self.model, "--out",
                                            os.path.join(folder, "page.md"), "--work", work,
                                            "--kinds", "survival", *more)  # yapf: disable
        self.assertEqual(study("--train-rows-max", "600")[0], 0)
        with open(os.path.join(folder, "page.md"), encoding="utf-8") as page:
            trained = file.read(os.path.join(work, "survival-1.json"))["metrics"]["train_rows"]
            self.assertLess(trained, 600)
            self.assertIn(f"trained on {trained} rows of", page.read())
        for more, words in (((), "something else: train_answers"),
                            (("--train-rows-max", "600", "--trees", "9"), "trees 60 .now 9.")):
            for judged_only in ((), ("--trained-only",)):
                code, _, complaint = study(*more, *judged_only)
                self.assertEqual(code, 2)
                self.assertRegex(complaint, words)
        os.unlink(os.path.join(work, "recipe.json"))
        code, _, complaint = study("--train-rows-max", "600")
        self.assertEqual(code, 2)
        self.assertIn("survival-1.json but no recipe.json", complaint)


class ChosenTest(DatasetCase):

    def rows(self, answers):
        found = {}
        for answer in answers:
            found[answer.family] = found.get(answer.family, 0) + answer.length
        return found

    def test_families_with_less_than_an_even_share_are_taken_whole(self):
        rows = {"a": 1000, "b": 30, "c": 280, "d": 400}
        self.assertEqual(train.whole_families(rows, 900), {"b", "c"})
        self.assertEqual(train.whole_families(rows, 800), {"b"})
        self.assertEqual(train.whole_families(rows, 100), set())
        self.assertEqual(train.whole_families(rows, 1710), set(rows))

    def test_a_short_family_is_taken_whole(self):
        answers = self.written(prompts=120).of("train")
        have = self.rows(answers)
        self.assertGreater(have["story"], 1.5 * have["answer"])
        limit = 2 * have["answer"] + 200
        drawn = self.rows(train.chosen_answers(answers, limit, "none"))
        self.assertLess(drawn["answer"], 0.8 * have["answer"])
        alike = self.rows(train.chosen_answers(answers, limit, "families"))
        self.assertEqual(alike["answer"], have["answer"])
        self.assertGreater(alike["story"], have["answer"])
        self.assertLessEqual(sum(alike.values()), limit)

    def test_what_is_taken_of_a_family_does_not_depend_on_how_its_answers_end(self):
        answers = self.written(prompts=120).of("train")
        story = [answer for answer in answers if answer.family == "story"]
        taken = [answer for answer in train.chosen_answers(answers, 4000, "families")
                 if answer.family == "story"]  # yapf: disable
        self.assertLess(len(taken), 0.7 * len(story))
        mean = lambda some: sum(answer.length for answer in some) / len(some)
        self.assertAlmostEqual(mean(taken), mean(story), delta=0.15 * mean(story))


class PageTest(unittest.TestCase):

    def test_backslashes_and_dollars_stay(self):
        with tempfile.TemporaryDirectory() as folder:
            page = os.path.join(folder, "p.md")
            for _ in range(2):
                write_page(page, {"a": r"\1 $x$"})
            with open(page, encoding="utf-8") as file:
                self.assertEqual(file.read(), "<!-- a -->\n\\1 $x$\n<!-- end a -->\n")


class AlarmsTest(DatasetCase):

    def test_of_each_family_at_most_one_quiet_row_in_a_hundred(self):
        dataset = self.written(prompts=120)
        frame = frame_of(dataset, dataset.of("train"), self.flags)
        rng = np.random.default_rng(8)
        story = np.array(frame.families)[frame.answer_of] == "story"
        # What is said of answers is higher, whether they end or not.
        within = np.where(story, 0.2, 0.6)[:, None] + 0.1 * rng.random((frame.rows, bins.COUNT))
        said = judging.Announced(within, within[:, 0], {})
        thresholds = judging.alarm_thresholds(frame, said)
        self.assertEqual(set(thresholds), {"story", "answer", "all"})
        known, happened = frame.ends.within(4)
        for family, own in (("story", story), ("answer", ~story)):
            alarm = said.chance(4) > thresholds[family][4]
            self.assertAlmostEqual(alarm[own & known & ~happened].mean(), 0.01, delta=0.003)

    def test_rows_of_endless_answers_set_no_threshold(self):
        dataset = self.written(prompts=60)
        frame = frame_of(dataset, dataset.of("train"), self.flags)
        rng = np.random.default_rng(9)
        within = rng.random((frame.rows, bins.COUNT))
        said = judging.Announced(within, within[:, 0], {})
        before = judging.alarm_thresholds(frame, said)
        answers = np.array(frame.families) == "answer"
        frame.families = ["endless" if own else "story" for own in answers]
        within[answers[frame.answer_of]] = 0  # nobody expects them to end
        after = judging.alarm_thresholds(frame, said)
        self.assertEqual(after["all"], before["story"])
        self.assertNotIn("endless", after)


class LimitsTest(DatasetCase):
    """Answers with one hazard at each step, most of which a limit cuts off."""

    HAZARD = 0.03

    def frame(self):
        rng = np.random.default_rng(6)
        limits = np.exp(rng.uniform(np.log(4), np.log(256), 3000)).astype(int)
        wanted = rng.geometric(self.HAZARD, len(limits))
        answers = [
            Answer(request_id=str(number), family="story", prompt=str(number), split="test", seed=0,
                   temperature=0.8, top_p=1.0, max_tokens=int(limit), prompt_length=9,
                   natural=bool(length <= limit), finish_reason="", figures=np.zeros((0, 5)),
                   tokens=np.zeros(min(length, limit), dtype=int), part=None, rows=None)
            for number, (limit, length) in enumerate(zip(limits, wanted)) if min(limit, length) > 1
        ]
        return Frame((), np.zeros((sum(a.length - 1 for a in answers), 0)), answers)

    def test_who_knows_the_hazard_is_calibrated_and_covers(self):
        frame = self.frame()
        widths = bins.UPPER - bins.LOWER + 1
        hazards = 1 - (1 - self.HAZARD)**widths
        logits = np.tile(np.log(hazards) - np.log1p(-hazards), (frame.rows, 1))
        said = judging.announced(logits, 1100.0)
        found = judging.judge(frame, np.arange(frame.rows), said, said,
                              judging.alarm_thresholds(frame, said))
        for horizon in ("1", "4", "16", "64"):
            self.assertLess(found["horizons"][horizon]["ece"].value, 0.02, horizon)
        # The hazard of a bin does not say that its first tokens are the likelier ones.
        self.assertAlmostEqual(found["remaining"]["coverage_90"].value, 0.9, delta=0.04)
        targets = np.nanmean(bins.outcomes(frame.ends), axis=0)[:8]
        self.assertTrue(np.allclose(targets, hazards[:8], atol=0.05), targets)


class AimsTest(unittest.TestCase):

    def test_verdicts(self):
        aim = aims.Aim("story", "auroc", 4, 0.9, True)
        for value, low, high, verdict in ((.95, .9, .99, aims.HIT), (.88, .8, .91, aims.OPEN),
                                          (.8, .7, .89, aims.MISS), (None, None, None,
                                                                     aims.UNKNOWN)):
            self.assertEqual(aims.verdict(aim, {"value": value, "low": low, "high": high}), verdict)
        aim = aims.Aim("story", "ece", 4, 0.02, False)
        self.assertEqual(aims.verdict(aim, {"value": .03, "low": .01, "high": .04}), aims.OPEN)
        self.assertEqual(aims.verdict(aim, None), aims.UNKNOWN)


if __name__ == "__main__":
    unittest.main()
