"""The page and the pictures: what is there, what is left out and told, and what is refused."""

import contextlib
import html
import io
import json
import os
import pathlib
import random
import re
import subprocess
import unittest
from unittest import mock

import numpy as np

from synthetic_eos import LogCase, interleaved, rows, vllm_rows, without
from baton_analysis.eos import __main__ as eos
from baton_analysis.eos import judging_pictures
from baton_analysis.eos.gather import SENTENCES, gather
from baton_analysis.eos.labels import Labels
from baton_analysis.eos.log import LogReader
from baton_analysis.eos.ranking import rank

PICTURES = ["eos_over_steps", "final_eos_hist", "eos_slope_vs_length", "mean_vs_max_eos"]
OTHERS = ["before_the_end", "survival", "reliability", "auroc"]
BY_FAMILY = [f"{name}_by_family" for name in PICTURES]
PNG = b"\x89PNG\r\n"


def answers(prefix, count, length, seed=1):
    rng = random.Random(seed)
    lengths = [length + rng.randrange(5) for _ in range(count)]
    return [
        rows(f"{prefix}{n}", [rng.uniform(1e-8, 0.1) for _ in range(size - 1)] + [0.9])
        for n, size in enumerate(lengths)
    ]


class ReportTest(LogCase):

    def report(self, *arguments):
        """Exit code, names of the pictures, the page's text, complaints."""
        self.out = os.path.join(self.folder, "out")
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = eos.main(["report", *arguments, "--out", self.out])
            except SystemExit as exit_:
                code = exit_.code
        names = sorted(os.listdir(self.out)) if os.path.isdir(self.out) else []
        self.page = ""
        if "report.html" in names:
            with open(os.path.join(self.out, "report.html"), encoding="utf-8") as file:
                self.page = file.read()
        printed = [os.path.basename(path) for path in out.getvalue().split()]
        self.assertEqual(sorted(printed), names)
        pictures = [name.removesuffix(".png") for name in names if name.endswith(".png")]
        return code, pictures, html.unescape(re.sub("<[^>]*>", " ", self.page)), err.getvalue()

    def families(self, families):
        path = os.path.join(self.folder, "families.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(families, file)
        return path

    def test_pictures_and_a_page_that_needs_nothing_else(self):
        log = self.written(interleaved(*answers("a", 30, 12)), rows("cut", [0.01] * 9, "length"))
        code, pictures, text, complaints = self.report(log)
        self.assertEqual((code, pictures), (0, sorted(PICTURES + OTHERS)))
        self.assertIn("31 requests", text)
        self.assertIn("no temperature: no prompt family has two temperatures", complaints)
        self.assertEqual(len(re.findall('src="data:image/png;base64,', self.page)), len(pictures))
        self.assertIsNone(re.search(r'(src|href)="(?!data:|#)|url\(|<script|@import', self.page))
        self.assertIn('name="viewport"', self.page)
        for name in pictures:
            with open(os.path.join(self.out, f"{name}.png"), "rb") as file:
                self.assertEqual(file.read(len(PNG)), PNG)

    def test_families_have_pictures_of_their_own(self):
        log = self.written(*answers("a", 20, 12), *answers("b", 20, 30))
        named = {
            f"{prefix}{n}": family
            for prefix, family in (("a", "list"), ("b", "<story> $^$ _"))
            for n in range(20)
        }
        code, pictures, text, _ = self.report(log, "--families", self.families(named))
        self.assertEqual((code, pictures), (0, sorted(PICTURES + OTHERS + BY_FAMILY)))
        self.assertIn("&lt;story&gt; $^$ _", self.page)
        self.assertNotIn("No prompt families", text)

    def test_families_that_are_called_like_what_the_page_calls_something_else(self):
        log = self.written(*answers("a", 9, 6), *answers("b", 6, 6), *answers("c", 3, 6))
        named = {f"{prefix}{n}": family for prefix, family in (("a", "all"), ("b", "no family"))
                 for n in range(9)}
        with mock.patch.object(judging_pictures, "auroc", wraps=judging_pictures.auroc) as auroc:
            code, _, text, _ = self.report(log, "--families", self.families(named))
        self.assertEqual(code, 0)
        (rankings,), _ = auroc.call_args
        self.assertEqual([name for name, _ in rankings],
                         ["all", "“all”", "“no fam… 2", "no family"])
        self.assertEqual(len({ranking.rows for _, ranking in rankings}), 4)
        for row in (r"“all”\s+9 ", r"“no family”\s+6 ", r" no family\s+3 ", r" all\s+18 "):
            self.assertRegex(text, row)

    def test_a_family_whose_name_is_no_whole_text(self):
        log = self.written(*answers("a", 4, 6))
        code, _, text, _ = self.report(log, "--families", self.families({"a0": "\ud800x"}))
        self.assertEqual(code, 0)
        self.assertIn("\\ud800x", text)

    def test_many_families_are_shown_as_others(self):
        log = self.written(*answers("a", 24, 6))
        code, _, text, _ = self.report(log, "--families",
                                       self.families({f"a{n}": f"a family of a very long name {n}"
                                                      for n in range(24)}))
        self.assertEqual(code, 0)
        self.assertIn("more families than this page shows", text)

    def test_tags_and_temperatures_of_summaries(self):
        requests = answers("a", 20, 12) + answers("b", 20, 30)
        log = self.written(*requests)
        self.write_summaries(
            log,
            *({
                "request_id": made[0]["request_id"], "tag": "story",
                "sampling": {"temperature": 0.5 if made[0]["request_id"][0] == "a" else 1.0}
            } for made in requests))
        code, pictures, text, _ = self.report(log)
        self.assertEqual((code, "temperature" in pictures), (0, True))
        self.assertIn("eos_prob announced", text)

    def test_rows_of_the_vllm_experiment_and_what_they_lack(self):
        requests = [vllm_rows(str(n), [None] * 4 + [0.2, 0.1, 0.3, 0.6], "eos") for n in range(5)]
        log = self.written(*requests, vllm_rows("x", [None, 0.1, None, 0.3], "stop"))
        code, pictures, text, _ = self.report(log)
        self.assertEqual((code, pictures), (0, sorted(PICTURES + OTHERS)))
        for lack in ("entropy is missing in 100 %", "eos_prob is missing in 50 %",
                     "1 request ended by", "so too high", "No FILE.requests.jsonl",
                     "No prompt families", "sentence ends are not known", "Give --model DIR"):
            self.assertIn(lack, text)

    def model(self):
        """Tokens 10 and 11 end a sentence."""
        folder = os.path.join(self.folder, "model")
        os.makedirs(folder, exist_ok=True)
        vocabulary = {f"t{number}": number for number in range(100)}
        del vocabulary["t10"], vocabulary["t11"]
        with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as file:
            json.dump({"model": {"vocab": vocabulary | {"end.": 10, "!": 11}}}, file)
        return folder

    def test_with_the_model_peaks_at_sentence_ends_are_told(self):
        # Three sentences; EOS is likely behind each, and the end comes behind the last one.
        tokens, probs = [20, 10, 21, 22, 11, 23, 10, 2], [1e-6, 1e-6, .1, 1e-6, 1e-6, .3, 1e-6, .9]
        log = self.written(*(rows(f"r{n}", probs, tokens=tokens) for n in range(20)))
        code, pictures, text, _ = self.report(log, "--model", self.model())
        self.assertEqual((code, pictures), (0, sorted([*PICTURES, *OTHERS, "sentence_ends"])))
        self.assertIn("Where a sentence ends", text)
        self.assertNotIn("--model", text)
        made = gather(LogReader([log]), Labels(), np.isin(np.arange(100), (10, 11)))
        family, = made.families.values()
        peaks = 1 / (1 + np.exp(-np.array(family.peaks.items)))
        self.assertEqual(peaks.shape, (20, SENTENCES + 2))
        np.testing.assert_allclose(peaks[:, [0, -3, -2, -1]], [[1e-6, .1, .3, .9]] * 20, rtol=1e-4)
        self.assertTrue(np.isnan(peaks[:, 1:-3]).all())
        # Within 4 end the rows 4 to 7, which know of .1, .1, .3 and .3; row 3 knows of .1.
        self.assertAlmostEqual(rank(made).scores["EOS behind the last sentence end"][1], 0.75)

    def test_a_model_without_sentence_ends_has_no_picture_of_them(self):
        code, pictures, text, complaints = self.report(
            self.written(*answers("a", 20, 12)), "--model", self.odd_model())
        self.assertEqual((code, pictures), (0, sorted(PICTURES + OTHERS)))
        self.assertIn("no sentence_ends: no answer", complaints)

    def odd_model(self):
        folder = self.model()
        with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as file:
            json.dump({"model": {"vocab": {"word": 1}}}, file)
        return folder

    def test_a_log_without_any_probability_still_has_its_lengths(self):
        bare = [
            without(["eos_logprob", "eos_prob", "eos_prob_sampling"], made)
            for made in answers("a", 5, 8)
        ]
        code, pictures, text, complaints = self.report(self.written(*bare))
        self.assertEqual((code, pictures), (0, ["auroc", "survival"]))
        self.assertIn("no reliability: the log has no EOS probabilities", complaints)
        self.assertIn("eos_prob is missing in 100 %", text)

    def test_requests_of_one_token(self):
        code, pictures, _, complaints = self.report(
            self.written(*(rows(str(n), [0.5]) for n in range(3))))
        self.assertEqual(code, 0)
        self.assertIn("no auroc: no row is known to come shortly before an end", complaints)
        self.assertIn("survival", pictures)

    def test_runaways_are_listed_with_the_reason(self):
        log = self.written(*answers("a", 30, 12),
                           rows("loop", [0.01] * 80, "runaway", tokens=[5, 6, 7, 8] * 20),
                           rows("brief", [0.01] * 64, "length", tokens=[5, 6, 7, 8] * 16),
                           rows("short", [0.01] * 10, "length"),
                           rows("stopped", [0.01] * 90, "stop_string"))
        _, _, text, _ = self.report(log)
        runaways = text[text.rindex("Runaways"):]
        self.assertRegex(
            runaways,
            r"loop\s+all requests\s+80\s+runaway\s+100 %\s+0.01\s+repeats itself, longer than 1\d")
        self.assertRegex(runaways, r"brief\s+all requests\s+64\s+length\s+93 %.*repeats itself")
        self.assertIn("2 answers went on for longer", runaways)
        self.assertNotIn("short", runaways)
        self.assertNotRegex(runaways, r"stopped\s+all requests")

    def test_a_rotated_log_is_read_in_parts(self):
        whole = answers("a", 1, 20)[0]
        code, _, text, _ = self.report(self.written(whole[:7], name="1"),
                                       self.written(whole[7:], name="2"))
        self.assertEqual(code, 0)
        self.assertIn("1 request,", text)

    def test_what_cannot_be_read_is_refused(self):
        empty = self.written()
        broken = self.written(tail="{\n", name="broken")
        folder = os.path.join(self.folder, "eos.jsonl")
        for arguments, message in (([empty], "no rows in"), ([broken], "line 1"),
                                   (["absent"], "absent cannot be read"),
                                   ([empty, "--families", "absent"], "--families absent"),
                                   ([empty, "--model", "absent"], "give the folder of the model")):
            code, pictures, _, complaints = self.report(*arguments)
            self.assertEqual((code, pictures), (2, []), arguments)
            self.assertIn(message, complaints)
        log = self.written(*answers("a", 2, 5), name="log")
        err = io.StringIO()
        with contextlib.redirect_stderr(err):
            self.assertEqual(eos.main(["report", log, "--out", folder]), 2)
        self.assertIn("give a folder", err.getvalue())

    def test_the_script_finds_the_package(self):
        script = pathlib.Path(__file__).resolve().parents[3] / "scripts" / "eos"
        log = self.written(*answers("a", 3, 6))
        done = subprocess.run([script, "report", log, "--out", os.path.join(self.folder, "out")],
                              cwd=self.folder, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("report.html", done.stdout)
        self.assertEqual(subprocess.run([script], capture_output=True, timeout=120).returncode, 2)

    def test_names_that_are_not_utf8(self):
        log = os.fsencode(self.written(*answers("a", 3, 6), rows("\ud800", [0.1], "length")))
        odd = os.path.join(os.fsencode(self.folder), b"\xff.jsonl")
        os.rename(log, odd)
        out = os.path.join(os.fsencode(self.folder), b"out\xff")
        script = pathlib.Path(__file__).resolve().parents[3] / "scripts" / "eos"
        done = subprocess.run([script, "report", odd, "--out", out], capture_output=True,
                              timeout=120, env=os.environ | {"LC_ALL": "C.UTF-8"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(os.path.join(out, b"report.html"), done.stdout)
        with open(os.path.join(out, b"report.html"), encoding="utf-8") as file:
            self.assertIn("\\udcff.jsonl", file.read())

    def test_an_answer_as_long_as_may_be(self):
        made = rows("long", [0.01] * 9, "length")
        made[-1]["step"] = 2**31 - 1
        code, pictures, text, _ = self.report(self.written(*answers("a", 3, 6), made))
        self.assertEqual((code, pictures), (0, sorted(PICTURES + OTHERS)))
        self.assertIn("some rows are not in the log", text)

    def test_an_unknown_command_names_the_known(self):
        err = io.StringIO()
        with contextlib.redirect_stderr(err):
            self.assertEqual(eos.main(["draw"]), 2)
        self.assertIn("expected report", err.getvalue())


if __name__ == "__main__":
    unittest.main()
