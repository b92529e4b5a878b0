"""`scripts/eos report LOG… --out DIR`: one page and pictures of what EOS logs tell."""

import argparse
import io
import os
import sys

import matplotlib

from baton_analysis import style
from baton_analysis.eos import end_pictures, judging_pictures, request_pictures, tables
from baton_analysis.eos.drawing import count
from baton_analysis.eos.gather import ALL, Gathered, gather
from baton_analysis.eos.labels import Labels
from baton_analysis.eos.log import LogReader
from baton_analysis.eos.page import Page
from baton_analysis.eos.ranking import rank
from baton_analysis.errors import InputError
from baton_analysis.predict import boundaries

DPI = 150  # sharp on phones, too
# A family may have a dollar in its name, which is no formula.
RC = {**style.RC, "text.parse_math": False}

REQUESTS = (
    ("eos_over_steps", "The course of typical answers",
     "The chance that the model gives EOS at each token: tiny inside a sentence, higher where the "
     "answer might end, and near the right edge the end itself."),
    ("final_eos_hist", "How sure the model was at the end",
     "How probable EOS was when the last token was drawn; far left are ends that the model had "
     "not wanted."),
    ("eos_slope_vs_length", "Slope against length",
     "Each mark is an answer; above 0 its EOS probability rose on the way, and marks around 0 say "
     "that the slope does not foretell the end."),
    ("mean_vs_max_eos", "Mean against peak",
     "Each mark is an answer; high marks are answers that might have ended earlier and went on."),
)


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    try:
        labels = Labels()
        for log in options.logs:
            labels.read_summaries(log)
        if options.families:
            labels.read_families(options.families)
        reader = LogReader(options.logs)
        sentence_ends = None
        if options.model:
            sentence_ends = boundaries.flags_by_id(options.model) != 0
        gathered = gather(reader, labels, sentence_ends)
        if not gathered.requests:
            raise InputError(f"no rows in {', '.join(options.logs)}; give a log that has some")
        with matplotlib.rc_context(RC):
            _Report(options, gathered).write(
                tables.lacks(gathered, reader, labels, sentence_ends is not None))
    except InputError as error:
        print(f"eos report: {error}", file=sys.stderr)
        return 2
    return 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="eos report",
                                     description="One page and pictures of what EOS logs tell.")
    parser.add_argument("logs", metavar="LOG", nargs="+",
                        help="what --eos-log names, read with all its parts, or parts of it")
    parser.add_argument("--out", metavar="DIR", required=True,
                        help="folder for report.html and pictures; it is made")
    parser.add_argument(
        "--families", metavar="FILE",
        help='JSON object {"REQUEST ID": "FAMILY"}: the prompt family of each request')
    parser.add_argument(
        "--model", metavar="DIR",
        help="folder of the model, whose tokenizer.json tells which tokens end a sentence")
    return parser.parse_args(arguments)


class _Report:

    def __init__(self, options, gathered: Gathered):
        self._out, self._gathered, self._model = options.out, gathered, options.model
        self._families = sorted(gathered.families.values(), key=lambda family: -family.ends.count)
        self._many = gathered.named > 0
        if not self._many:
            self._families[0].name = ALL
        self._page = Page("How answers end: " +
                          ", ".join(os.path.basename(log) for log in options.logs))

    def write(self, notes: list[str]):
        try:
            os.makedirs(self._out, exist_ok=True)
            self._counts(notes)
            for name, heading, caption in REQUESTS:
                self._of_requests(name, heading, caption)
            self._before_the_end()
            if self._model:
                self._sentence_ends()
            self._lengths()
            self._judged()
            self._runaways()
            self._temperatures()
            path = os.path.join(self._out, "report.html")
            # Names of files and ids may hold what is no character.
            with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(self._page.html())
        except OSError as error:
            raise InputError(
                f"--out {self._out}: {error}; give a folder that can be written") from error
        print(path, flush=True)

    def _counts(self, notes):
        gathered, page = self._gathered, self._page
        reasons = ", ".join(f"{name} {number:,}" for name, number in gathered.reasons.most_common())
        page.paragraph(
            f"{count(gathered.requests, 'request')}, {count(gathered.rows, 'token')} up to their "
            f"ends. Ended by: {reasons}. Requests that ignore EOS and drew it count as ended "
            "there.")
        page.words(tables.WORDS)
        page.table(*tables.ends_table(self._families))
        page.heading("What these logs lack")
        page.notes(notes)

    def _of_requests(self, name, heading, caption):
        draw = getattr(request_pictures, name)
        self._page.heading(heading)
        self._picture(name, draw([(ALL, self._families)], False), caption)
        if self._many:
            self._picture(f"{name}_by_family", draw([(f.label, [f]) for f in self._families], True),
                          "The same, for each prompt family.")

    def _before_the_end(self):
        self._page.heading("The last 64 steps before the end")
        self._picture(
            "before_the_end", end_pictures.before_the_end(self._families),
            "Half of the answers lie in the band; where the line jumps only at 0, nothing was to "
            "be seen before.")

    def _lengths(self):
        self._page.heading("How long answers are")
        self._picture(
            "survival", end_pictures.survival(self._families),
            "Answers that were cut off count as long as they were seen, so limits do not make "
            "answers look short.")

    def _sentence_ends(self):
        self._page.heading("Where a sentence ends")
        self._picture(
            "sentence_ends", end_pictures.sentence_ends(self._families),
            "An answer may end behind a sentence or a line, and the model raises EOS there. Where "
            "the marks climb towards the right, it knows that the end is near; where they are "
            "level, it might have ended after any sentence. What ends a sentence is told by the "
            "token alone, so the dot of “1.” is taken for one.")

    def _judged(self):
        self._page.heading("Is the probability right?")
        self._picture(
            "reliability", judging_pictures.reliability(self._gathered),
            "Of all steps to which the model gave about 10 %, one in ten should be the last; "
            "marks above the line ended more often than announced.")
        everything = rank(self._gathered)
        rankings = [("all" if self._many else ALL, everything)]
        if self._many:
            rankings += [(f.shortened(judging_pictures.NAME_MAX), rank(self._gathered, f.number))
                         for f in self._families[:judging_pictures.COLUMNS_MAX - 1]]
        self._page.heading("What foretells the end?")
        self._picture(
            "auroc", judging_pictures.auroc(rankings),
            "The row of the end itself is left out: it would foretell itself. “Length alone, by "
            "survival” uses no EOS figure at all, only the curves above (counted on these very "
            "answers, which flatters small families): it is the mark to beat. “–”: fewer than a "
            "tenth of the rows have the feature.")
        if everything:
            offered = self._gathered.sample.offered
            self._page.paragraph(
                f"Counted on {everything.rows:,} of {offered:,} rows, drawn at random." +
                (" All families together look easier than each alone, because they differ in "
                 "length; the largest families are shown." if self._many else ""), "grey")

    def _runaways(self):
        self._page.heading("Runaways")
        words, head, rows = tables.runaways(self._families)
        self._page.paragraph(words)
        if rows:
            self._page.table(head, rows[:tables.RUNAWAYS_SHOWN])
        if len(rows) > tables.RUNAWAYS_SHOWN:
            self._page.paragraph(f"The longest {tables.RUNAWAYS_SHOWN} are shown.", "grey")

    def _temperatures(self):
        self._page.heading("What temperature does")
        if self._picture(
                "temperature", end_pictures.temperature(self._families),
                "Within a prompt family, how long answers are at each temperature."
                if self._many else
                "How long answers are at each temperature; without families, other prompts may be "
                "the cause of a difference."):
            self._page.table(*tables.temperatures_table(self._families))
            self._page.paragraph(
                "“Announced” adds up the probabilities of all steps; where it equals the number "
                "of ends, they are right on the whole. The raw probability does not know the "
                "temperature, so it may be off where eos_prob_sampling is not.")

    def _picture(self, name, figure, caption) -> bool:
        """Writes NAME.png and shows it on the page, or says there why it is left out."""
        if isinstance(figure, str):
            self._page.paragraph(f"No picture: {figure}.")
            print(f"no {name}: {figure}", file=sys.stderr)
            return False
        png = io.BytesIO()
        figure.savefig(png, dpi=DPI, format="png")
        path = os.path.join(self._out, f"{name}.png")
        with open(path, "wb") as file:
            file.write(png.getvalue())
        print(path, flush=True)
        self._page.picture(png.getvalue(), caption)
        return True
