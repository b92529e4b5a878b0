"""Judges a service's predictions of ends as its clients see them: `scripts/eos outside DATASET`.

Starts `baton serve` with the demo model and its predictor, asks the data set's prompts of stories and answers that no
training saw (DATASET/split.jsonl), with seeds of its own, and holds every EndPrediction event against what then
happened. Beside it stands survival per family (Kaplan and Meier's), from the lengths of the training answers in
DATASET/sampled/requests.jsonl. Nothing of the training's code is used here, so that a mistake there shows.

Rows count alike; the row that ends an answer is none, because there is no prediction behind it. Kendall's tau is of
requests that might run together: of pairs of rows of two prompts, drawn at random among the stories and answers,
whether expected_remaining has them in the order in which they end (tau-b: a tie of one of both takes a pair out of its
half of the denominator). Intervals are of 95 %, from prompts drawn again; a pair then counts as often as both prompts.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

from eos_dataset import DEMO, LIMIT, ROOT, DatasetError, read_jsonl, say, service, write_jsonl

FAMILIES = ("story", "answer")
TOGETHER = "story + answer"
HORIZONS = (1, 4, 16, 64, 256)
TEMPERATURE = 0.8
FIRST_SEED = 700_001  # other seeds than those of the data set
DRAWINGS = 300
BINS = 15
PAIRS = 200_000
# (family, figure, horizon or None, bound, whether it is a least value)
AIMS = (
    ("story", "auroc", 4, 0.98, True), ("story", "auroc", 16, 0.96, True), ("story", "ece", 4, 0.02, False),
    ("story", "ece", 16, 0.02, False), ("story", "mae_against_survival", None, 0.92, False),
    ("answer", "auroc", 1, 0.95, True), ("answer", "auroc", 4, 0.77, True), ("answer", "ece", 1, 0.04, False),
    ("answer", "ece", 4, 0.04, False), ("answer", "skill", 4, 0.08, True), (TOGETHER, "kendall_tau", None, 0.58, True),
)


def ask(binaries, server, prompts, seeds, folder):
    """The answers of `baton generate`, one object per prompt and seed."""
    lines = [{"request_id": f"{p['prompt_index']}-{s}", "messages": [{"role": "user", "content": p["prompt"]}],
              "seed": FIRST_SEED + 1000 * p["prompt_index"] + s, "temperature": TEMPERATURE, "max_tokens": LIMIT,
              "predict": True} for p in prompts for s in range(seeds)]
    write_jsonl(folder / "prompts.jsonl", lines)
    done = subprocess.run([binaries / "baton", "generate", "--server", server, "--prompts", folder / "prompts.jsonl",
                           "--json", "--timeout", "600s"], stdout=subprocess.PIPE, check=False)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode != 0 or len(answers) != len(lines):
        raise DatasetError(f"baton generate gave {len(answers)} answers to {len(lines)} prompts, exit status "
                           f"{done.returncode}: see above")
    return answers


class Survival:
    """Of a family's training answers, all of which ended by themselves or ran to their limit."""

    def __init__(self, requests):
        lengths = np.array([r["output_length"] for r in requests])
        natural = np.array([r["finish_reason"] == "stop_eos" for r in requests])
        steps = np.arange(1, LIMIT + 1)
        at_risk = (lengths[None, :] >= steps[:, None]).sum(1)
        ended = ((lengths[None, :] == steps[:, None]) & natural).sum(1)
        self._going_on = np.concatenate([[1.0], np.cumprod(1 - ended / np.maximum(at_risk, 1))])

    def after(self, step):
        """P(ended within each number of further steps), from 0 on."""
        left = self._going_on[step:]
        return 1 - left / left[0] if left[0] > 0 else np.ones_like(left)

    def within(self, step, horizon):
        chances = self.after(step)
        return chances[min(horizon, len(chances) - 1)]

    def median(self, step):
        """The next step, where no training answer was as long; the limit, where less than half of them ended."""
        if self._going_on[step] == 0:
            return 1
        ended = self.after(step) >= 0.5
        return int(np.argmax(ended)) if ended.any() else LIMIT - step


def rows_of(answers, prompts, survival):
    """Arrays over all predictions: prompt, remaining, expected, p50, survival's median; [rows, horizons] of both."""
    columns = {name: [] for name in ("prompt", "remaining", "expected", "p50", "median", "within", "survival")}
    family_of = {str(p["prompt_index"]): p["family"] for p in prompts}
    families, cut, silent = [], 0, 0
    for answer in answers:
        prompt = answer["request_id"].split("-")[0]
        length = answer["usage"]["completion_tokens"]
        if answer["finish_reason"] != "stop_eos":
            cut += 1
            continue
        silent += length - 1 - len(answer["predictions"])
        for said in answer["predictions"]:
            step = said["at_step"]
            if not 1 <= step < length:
                raise DatasetError(f"request {answer['request_id']} of {length} tokens has a prediction at step {step}")
            curve = survival[family_of[prompt]]
            families.append(family_of[prompt])
            columns["prompt"].append(int(prompt))
            columns["remaining"].append(length - step)
            columns["expected"].append(said["expected_remaining"])
            columns["p50"].append(said["p50"])
            columns["median"].append(curve.median(step))
            columns["within"].append([said["within"][str(h)] for h in HORIZONS])
            columns["survival"].append([curve.within(step, h) for h in HORIZONS])
    return {name: np.array(values) for name, values in columns.items()}, np.array(families), cut, silent


def auroc(chances, happened, weights):
    """The chance that a row where it happened was given more than one where it did not; ties count half."""
    _, group = np.unique(chances, return_inverse=True)
    positive = np.bincount(group, weights * happened)
    negative = np.bincount(group, weights * ~happened)
    below = np.cumsum(negative) - negative
    pairs = positive.sum() * negative.sum()
    return (positive * (below + negative / 2)).sum() / pairs if pairs else np.nan


def ece(chances, happened, weights):
    column = np.minimum((chances * BINS).astype(int), BINS - 1)
    off = np.bincount(column, weights * (chances - happened), BINS)
    return np.abs(off).sum() / weights.sum()


def figures(rows, weights):
    found = {}
    for i, horizon in enumerate(HORIZONS):
        happened = rows["remaining"] <= horizon
        chances, base = rows["within"][:, i], rows["survival"][:, i]
        brier = (weights * (chances - happened)**2).sum()
        brier_base = (weights * (base - happened)**2).sum()
        found["auroc", horizon] = auroc(chances, happened, weights)
        found["survival_auroc", horizon] = auroc(base, happened, weights)
        found["ece", horizon] = ece(chances, happened, weights)
        found["skill", horizon] = 1 - brier / brier_base if brier_base else np.nan
    off = (weights * np.abs(rows["p50"] - rows["remaining"])).sum()
    off_base = (weights * np.abs(rows["median"] - rows["remaining"])).sum()
    found["mae", None] = off / weights.sum()
    found["mae_against_survival", None] = off / off_base
    return found


class Together:
    """Kendall's tau-b over random pairs of rows of different prompts."""

    def __init__(self, rows, generator, pairs=PAIRS):
        first, second = generator.integers(len(rows["prompt"]), size=(2, pairs))
        others = rows["prompt"][first] != rows["prompt"][second]
        self._first, self._second = first[others], second[others]
        order = lambda values: np.sign(values[self._first] - values[self._second])
        self._said, self._true = order(rows["expected"]), order(rows["remaining"])

    def figures(self, rows, weights):
        weights = weights[self._first] * weights[self._second]
        pairs = (weights * (self._said != 0)).sum() * (weights * (self._true != 0)).sum()
        tau = (weights * self._said * self._true).sum() / np.sqrt(pairs) if pairs else np.nan
        return {("kendall_tau", None): tau}


def with_intervals(rows, generator, figures_of=figures):
    """(figure, horizon) -> (value, low, high)."""
    prompts, row_prompt = np.unique(rows["prompt"], return_inverse=True)
    value = figures_of(rows, np.ones(len(row_prompt)))
    drawn = []
    for _ in range(DRAWINGS):
        times = np.bincount(generator.integers(len(prompts), size=len(prompts)), minlength=len(prompts))
        drawn.append(figures_of(rows, times[row_prompt].astype(float)))
    bounds = {key: [d[key] for d in drawn if not np.isnan(d[key])] for key in value}
    return {key: (value[key], *np.quantile(bounds[key], (0.025, 0.975))) if bounds[key] else None for key in value}


def page(found, counts):
    lines = ["| family | figure | " + " | ".join(f"{h}" for h in HORIZONS) + " |", "|---|---|" + "---|" * len(HORIZONS)]
    cell = lambda v: f"{v[0]:.3f} [{v[1]:.3f}, {v[2]:.3f}]" if v else "–"
    for family, values in ((family, found[family]) for family in FAMILIES):
        for name in ("auroc", "survival_auroc", "ece", "skill"):
            lines.append(f"| {family} | {name} | " + " | ".join(cell(values[name, h]) for h in HORIZONS) + " |")
    for family, values in ((family, found[family]) for family in FAMILIES):
        lines.append(f"\n{family}: {counts[family]}; MAE of p50 {cell(values['mae', None])} tokens, "
                     f"{cell(values['mae_against_survival', None])} of survival's.")
    lines += ["\n| aim | found | |", "|---|---|---|"]
    missed = 0
    for family, name, horizon, bound, least in AIMS:
        value, low, high = found[family][name, horizon]
        reached = value >= bound if least else value <= bound
        open_ = high >= bound if least else low <= bound
        missed += not (reached or open_)
        where = f" at {horizon}" if horizon else ""
        lines.append(f"| {family} {name}{where} {'≥' if least else '≤'} {bound} | {cell((value, low, high))} | "
                     f"{'reached' if reached else 'within the interval' if open_ else 'MISSED'} |")
    return "\n".join(lines), missed


def judge(options):
    binaries = pathlib.Path(os.environ.get("BATON_BIN", ROOT / "build/cpu/bin"))
    if not (binaries / "baton").exists():
        raise DatasetError(f"{binaries}/baton is not there; type scripts/demo, which builds it, or set BATON_BIN")
    prompts = [p for p in read_jsonl(options.dataset / "split.jsonl")
               if p["family"] in FAMILIES and p["split"] == "test"]
    trained_on = {p["prompt_index"] for p in read_jsonl(options.dataset / "split.jsonl") if p["split"] == "train"}
    known = [r for r in read_jsonl(options.dataset / "sampled/requests.jsonl")
             if r["prompt_index"] in trained_on and r["temperature"] == TEMPERATURE]
    survival = {family: Survival([r for r in known if r["family"] == family]) for family in FAMILIES}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        with service(binaries, options.model, folder, options.serve_flag) as server:
            answers = ask(binaries, server, prompts, options.seeds, folder)
    rows, families, cut, silent = rows_of(answers, prompts, survival)
    generator = np.random.default_rng(1)
    found, counts = {}, {}
    for family in FAMILIES:
        chosen = {name: values[families == family] for name, values in rows.items()}
        if not len(chosen["prompt"]):
            raise DatasetError(f"no prediction came for a {family}; the service has --predictor off, or knows nothing yet")
        found[family] = with_intervals(chosen, generator)
        counts[family] = f"{len(chosen['prompt'])} predictions, {len(np.unique(chosen['prompt']))} prompts"
    found[TOGETHER] = with_intervals(rows, generator, Together(rows, generator).figures)
    made_by = sorted({said.get("predictor", "") for answer in answers for said in answer["predictions"]} - {""})
    text, missed = page(found, counts)
    say(f"{len(answers)} answers, {cut} cut off and left out, {silent} rows without a prediction"
        + (f", by {', '.join(made_by)}" if made_by else ""))
    print(text)
    return 1 if missed else 0


def main(arguments):
    ap = argparse.ArgumentParser(prog="scripts/eos outside", description="Judges a service's predictions of ends.")
    ap.add_argument("dataset", type=pathlib.Path, metavar="DATASET")
    ap.add_argument("--model", type=pathlib.Path, default=DEMO)
    ap.add_argument("--seeds", type=int, default=4, help="answers per prompt")
    ap.add_argument("--serve-flag", action="append", default=[], metavar="FLAG",
                    help="for baton serve, as --serve-flag=--threads=1; may be given several times")
    options = ap.parse_args(arguments)
    if not 1 <= options.seeds <= 1000:
        ap.error(f"--seeds is {options.seeds}; expected 1 to 1000")
    try:
        return judge(options)
    except (DatasetError, OSError) as error:
        say(f"eos outside: {error}")
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
