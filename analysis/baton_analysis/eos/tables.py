"""What the page says in words and numbers: counts, what the log lacks, runaways, temperatures."""

import math

from baton_analysis.eos.drawing import count
from baton_analysis.eos.end_pictures import compared_temperatures
from baton_analysis.eos.gather import LOOP_ROWS, LOOP_SHARE, OTHERS, OTHERS_KEY, Family, Gathered
from baton_analysis.eos.labels import SUMMARIES_MAX, Labels
from baton_analysis.eos.log import LogReader
from baton_analysis.eos.statistics import Ends, kaplan_meier, survival_quantile

RUNAWAYS_SHOWN = 40
# So many natural ends tell what an ordinary length is.
ORDINARY_MIN = 20
ORDINARY_SHARE = 0.99

WORDS = {
    "EOS":
    "End of sequence: the special tokens by which a model says that its answer is complete.",
    "row, step":
    "One token of an answer. The row of step t has the probability of EOS when token t was drawn.",
    "ended by itself":
    "The draw of the last token was EOS.",
    "cut off (censored)":
    "The answer ended for another reason: a limit of length, a stop string, a cancelled request. "
    "It would have been at least this long, and is counted as that.",
    "raw probability (eos_prob)":
    "Of all EOS tokens together, as the model gives it at temperature 1.",
    "after sampling rules (eos_prob_sampling)":
    "With temperature, top-k, penalties and so on: the chance that the request really ends here.",
    "log-odds":
    "ln(p / (1 - p)): a scale on which 1 % and 99 % are equally far from 50 %.",
    "AUROC":
    "The chance that a row shortly before an end has a higher value than another row.",
    "ECE":
    "Expected calibration error: how far announced and seen frequencies differ on average, over "
    "15 bins; every row counts the same, so the many rows with almost 0 make it small.",
}


def ends_table(families: list[Family]):
    rows = [_ends_row(family.name, family.ends) for family in families]
    if len(families) > 1:
        rows.append(_ends_row("all", sum((family.ends for family in families), start=Ends())))
    return [
        "prompt family", "requests", "ended by themselves", "cut off", "half ended by", "90 % by",
        "99 % by"
    ], rows


def _ends_row(name, ends: Ends):
    survival = kaplan_meier(ends)
    quantiles = [survival_quantile(survival, share) for share in (0.5, 0.9, 0.99)]
    return [
        name, f"{ends.count:,}", f"{ends.natural.total():,}", f"{ends.censored.total():,}",
        *("–" if q is None else f"{q:,} tokens" for q in quantiles)
    ]


def lacks(gathered: Gathered, reader: LogReader, labels: Labels,
          sentence_ends: bool) -> list[str]:
    """What these logs cannot tell, and what was left out for it."""
    notes = [
        f"{name} is missing in {100 * rows / reader.rows:.3g} % of the rows; what needs it counts "
        "the other rows."
        for name, rows in sorted(reader.missing.items())
    ]
    if 0 < reader.missing["eos_prob"] < reader.rows:
        notes.append(
            "A log that has EOS only among the most likely tokens lacks its small probabilities: "
            "means, medians and slopes are of the others, and so too high.")
    if reader.vague_stops:
        notes.append(
            f'{count(reader.vague_stops, "request")} ended by "stop" with a token that is not '
            "eos_token_id: whether by another EOS token or by a stop string is not in the log, so "
            "they count as cut off.")
    if reader.gaps:
        notes.append(
            f"Of {count(reader.gaps, 'request')} some rows are not in the log; features over rows "
            "take those that are there.")
    if reader.rows_after_end:
        notes.append(
            f"{count(reader.rows_after_end, 'row')} after the natural end of requests that ignore "
            "EOS were left out.")
    if reader.cut_lines:
        notes.append("The last line of a log is cut, as while it is being written.")
    unfinished = gathered.reasons["unfinished"]
    if unfinished:
        notes.append(
            f"{count(unfinished, 'request')} had not ended when the log did, and count as cut off.")
    if labels.files_without_summaries:
        notes.append(
            f"No FILE.requests.jsonl beside {', '.join(labels.files_without_summaries)}: "
            "temperatures of these requests are not known.")
    if labels.cut_lines:
        notes.append("The last line of a FILE.requests.jsonl is cut, as while it is being written.")
    if labels.left_out:
        notes.append(f"Only the first {SUMMARIES_MAX:,} request summaries were taken.")
    if not gathered.named:
        notes.append(
            "No prompt families: they come from a --families file with the ids of these requests. "
            "All are one family, which flatters whatever tells families apart.")
    elif gathered.named < gathered.requests:
        notes.append(f"{count(gathered.requests - gathered.named, 'request')} have no family.")
    if OTHERS_KEY in gathered.families:
        notes.append(
            f'There are more families than this page shows; the last ones are under "{OTHERS}".')
    if not sentence_ends:
        notes.append(
            "Tokens have no text in the log, so sentence ends are not known: the peaks of EOS at "
            "sentence ends, which foretell ends of stories best, are not among the features. Give "
            "--model DIR, whose tokenizer.json tells them.")
    return notes


def runaways(families: list[Family]):
    """(counted in words, table head, rows) of answers that did not come to an end of their own."""
    found, long, loops = {}, 0, 0
    for family in families:
        ordinary = _ordinary_length(family.ends)
        loops += family.loops
        long += sum(n for length, n in family.unended.items() if length > ordinary)
        for suspect in {*family.longest, *family.looping}:
            why = _why(suspect, ordinary)
            if why:
                found[(suspect.length, suspect.request_id, family.number)] = (suspect, family, why)
    words = (
        f"{count(long, 'answer')} went on for longer than 99 % of the ended ones of the family; "
        f"{loops:,} repeated themselves (at least {100 * LOOP_SHARE:.0f} % of the last {LOOP_ROWS} "
        "4-grams had been there before). Answers that ended by EOS or a stop rule are never "
        "counted.")
    rows = [[s.request_id, family.name, f"{s.length:,}", s.reason, _percent(s.repeats),
             _probability(s.peak), why]
            for _, (s, family, why) in sorted(found.items(), reverse=True)]
    return words, [
        "request", "family", "tokens", "ended by", "repeated 4-grams", "highest EOS", "why listed"
    ], rows


def _ordinary_length(ends: Ends) -> float:
    """The length that 99 % of natural ends keep to; infinite where there are too few."""
    if ends.natural.total() < ORDINARY_MIN:
        return math.inf
    return float(ends.natural_quantile(ORDINARY_SHARE))


def _why(suspect, ordinary) -> str:
    reasons = []
    if suspect.repeats >= LOOP_SHARE:
        reasons.append("repeats itself")
    if suspect.length > ordinary:
        reasons.append(f"longer than {ordinary:,.0f}")
    return ", ".join(reasons)


def temperatures_table(families: list[Family]):
    rows = []
    for family in families:
        known = compared_temperatures(family)
        for at, found in known.items() if len(known) > 1 else ():
            middle = survival_quantile(kaplan_meier(found.ends), 0.5)
            rows.append([
                family.name, f"{at:g}", f"{found.ends.count:,}",
                "–" if middle is None else f"{middle:,} tokens",
                f"{found.ends.natural.total():,}", f"{found.announced_raw:,.1f}",
                f"{found.stopped:,}", f"{found.announced_sampling:,.1f}"
            ])
    return [
        "prompt family", "temperature", "requests", "half ended by", "ended by EOS",
        "eos_prob announced", "ended by EOS or stop token", "eos_prob_sampling announced"
    ], rows


def _percent(share) -> str:
    return "–" if math.isnan(share) else f"{100 * share:.0f} %"


def _probability(logprob) -> str:
    return "–" if math.isnan(logprob) else f"{math.exp(logprob):.2g}"
