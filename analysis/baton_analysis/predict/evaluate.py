"""`scripts/eos evaluate DATASET FILE… [--json]`: predictors on answers that none of them saw."""

import argparse
import json
import sys
from collections import defaultdict

import numpy as np

from baton_analysis.errors import InputError
from baton_analysis.predict import aims, arms, boundaries, ceiling, judging, models, tables
from baton_analysis.predict.arms import Groups
from baton_analysis.predict.dataset import ROWS_MAX, Answer, Dataset
from baton_analysis.predict.figures import Figure
from baton_analysis.predict.frame import Frame, frame_of
from baton_analysis.predict.jobs import side_by_side
from baton_analysis.predict.models import Model
from baton_analysis.predict.train import some_answers

CEILING_HORIZONS = (1, 4, 16, 64)
VALID_ROWS_MAX, OTHER_ARM_ROWS_MAX = 80_000, 20_000
RULE_ROWS_MAX = 100_000  # that say what an alarm of M1 is worth


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    try:
        dataset = Dataset(options.dataset, options.rows_max)
        flags = boundaries.flags_by_id(options.model)
        found = evaluated(dataset, flags, options.files)
        print(json.dumps(found, indent=1) if options.json else tables.text(found))
    except InputError as error:
        print(f"eos evaluate: {error}", file=sys.stderr)
        return 2
    return 0


def evaluated(dataset: Dataset, flags: np.ndarray, files: list[str], jobs: int = 1) -> dict:
    """Everything that is reported, as plain data."""
    judge = Judge(dataset, flags)
    judged = judge.baselines() + [models.of_file(path, dataset) for path in files]
    by_kind = defaultdict(list)
    figures_of = side_by_side(judge.judged, judged, jobs)
    for model, found in zip(judged, figures_of):
        by_kind[model.title].append(found)
    found = {name: _over_seeds(runs) for name, runs in by_kind.items()}
    for figures_of in found.values():
        figures_of["aims"] = [_aim(figures_of, judge.main_arm, aim) for aim in aims.AIMS]
    return {"data": judge.data(), "models": found}


class Judge:

    def __init__(self, dataset: Dataset, flags: np.ndarray):
        self._dataset = dataset
        answers = dataset.of("train")
        train = frame_of(dataset, some_answers(answers, RULE_ROWS_MAX), flags)
        self._train = {"answers": len(answers), "rows": sum(answer.length for answer in answers)}
        self._valid = frame_of(dataset, some_answers(dataset.of("validation"), VALID_ROWS_MAX),
                               flags)
        self.frames = {
            name: frame_of(dataset, _to_judge(dataset.of(split)), flags)
            for name, split in (("test", "test"), ("held out", "held_out"))
        }
        if not self.frames["test"].rows:
            raise InputError(f"{dataset.folder} has no answers in the split 'test'; collect more")
        self.groups = {name: Groups(frame) for name, frame in self.frames.items()}
        self.main_arm = _main_arm(self.groups["test"].arms)
        self._prefixes = ceiling.read(dataset, self.frames["test"])
        self._base_models = models.baselines(answers, train)
        self._base = {name: self._announced(self._base_models[0], frame)
                      for name, frame in self.frames.items()}  # yapf: disable

    def baselines(self) -> list[Model]:
        return self._base_models

    def _announced(self, model: Model, frame: Frame) -> judging.Announced:
        return judging.announced(model.logits(frame), model.tail_mean)

    def judged(self, model: Model) -> dict:
        thresholds = judging.alarm_thresholds(self._valid, self._announced(model, self._valid))
        found = {"seed": model.seed, "alarm_thresholds": thresholds, "arms": {}, "ceiling": {}}
        for name, frame in self.frames.items():
            if not frame.rows:
                continue
            said, base = self._announced(model, frame), self._base[name]
            for arm in self.groups[name].arms:
                found["arms"].setdefault(arm, {}).update(
                    self._families(name, arm, said, base, thresholds))
            if name == "test" and self._prefixes is not None:
                found["ceiling"] = self._against_ceiling(said)
        return _plain(found)

    def _families(self, name, arm, said, base, thresholds) -> dict:
        frame, groups = self.frames[name], self.groups[name]
        found = {}
        for family in groups.families(arm):
            rows = groups.rows(arm, family)
            if not len(rows):
                continue
            label = family if name == "test" else f"{family} ({name})"
            found[label] = judging.judge(frame, rows, said, base, thresholds)
            found[label]["mean_length"] = arms.mean_length(frame, rows)
        return found

    def _against_ceiling(self, said) -> dict:
        frame, groups = self.frames["test"], self.groups["test"]
        found = {}
        for family in groups.families(self.main_arm):
            own = np.isin(self._prefixes.rows, groups.rows(self.main_arm, family))
            if not own.any():
                continue
            prefixes = ceiling.Prefixes(*(values[own] for values in self._prefixes))
            found[family] = {}
            for horizon in CEILING_HORIZONS:
                chances = {name: announced.at(prefixes.rows).chance(horizon)
                           for name, announced in (("survival", self._base["test"]),
                                                   ("model", said))}  # yapf: disable
                compared = ceiling.compare(frame, prefixes, chances, horizon)
                found[family][str(horizon)] = {
                    "prefixes": len(prefixes.rows),
                    "auroc": compared["model"]["auroc"],
                    "auroc_ceiling": compared["ceiling"]["auroc"],
                    "skill_of_ceiling": compared["model"]["skill_of_ceiling"]
                }
        return found

    def data(self) -> dict:
        noise, dataset = {}, self._dataset
        groups, frame = self.groups["test"], self.frames["test"]
        for family in groups.families(self.main_arm):
            numbers = np.unique(frame.answer_of[groups.rows(self.main_arm, family)])
            noise[family] = arms.same_prompt_noise([frame.answers[n] for n in numbers])
        return {
            "folder": dataset.folder,
            "model_fingerprint": dataset.fingerprint,
            "main_arm": self.main_arm,
            "train_answers": self._train["answers"],
            "train_rows": self._train["rows"],
            "test_answers": len(frame.answers),
            "test_rows": frame.rows,
            "test_cut_otherwise": int((~frame.ends.to_limit[frame.starts[:-1]]).sum()),
            "prompts_left_out": dataset.left_out_prompts,
            "requests_left_out": dataset.left_out_requests,
            "same_prompt": noise
        }


def _to_judge(answers: list[Answer]) -> list[Answer]:
    """All answers of the main arm, some of the others, which only tell what a shift does."""
    most = arms.most_tokens(answers)
    by_arm = defaultdict(list)
    for answer in answers:
        by_arm[arms.arm_of(answer, most)].append(answer)
    main = _main_arm(sorted(by_arm)) if by_arm else None
    return [
        answer for arm, of_arm in by_arm.items()
        for answer in (of_arm if arm == main else some_answers(of_arm, OTHER_ARM_ROWS_MAX))
    ]


def _main_arm(names: list[str]) -> str:
    return "T 0.8" if "T 0.8" in names else names[0]


def _plain(value):
    """Figures as objects, keys as texts: what JSON can hold."""
    if isinstance(value, Figure):
        return value._asdict()
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    return value


def _over_seeds(runs: list[dict]) -> dict:
    """One model trained with several seeds: means, and the spread over seeds of each figure."""
    return {
        "seeds": [run["seed"] for run in runs]
    } | _merged([{
        key: run[key] for key in ("arms", "ceiling", "alarm_thresholds")
    } for run in runs])


def _merged(runs: list):
    first = runs[0]
    if isinstance(first, dict) and set(first) == set(Figure._fields):
        return _merged_figure(runs)
    if isinstance(first, dict):
        return {key: _merged([run[key] for run in runs]) for key in first}
    if isinstance(first, float):
        return float(np.mean(runs))
    return first


def _merged_figure(runs: list[dict]) -> dict:
    found = {}
    for key in Figure._fields:
        values = [run[key] for run in runs]
        found[key] = None if None in values else float(np.mean(values))
    if len(runs) > 1 and found["value"] is not None:
        values = [run["value"] for run in runs]
        found["seeds_low"], found["seeds_high"] = min(values), max(values)
    return found


def _aim(figures_of: dict, arm: str, aim: aims.Aim) -> dict:
    on_ceiling = {
        family: {
            horizon: found["skill_of_ceiling"] for horizon, found in horizons.items()
        } for family, horizons in figures_of["ceiling"].items()
    }
    figure = aims.figure_of(figures_of["arms"].get(arm, {}), on_ceiling, aim)
    return {"aim": aim.text, "figure": figure, "verdict": aims.verdict(aim, figure)}


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="eos evaluate", description=__doc__)
    parser.add_argument("dataset", metavar="DATASET", help="what `scripts/eos dataset` wrote")
    parser.add_argument(
        "files", metavar="FILE", nargs="*",
        help="what `scripts/eos train` wrote; files of one kind are its seeds. M0 "
        "and M1 are always there, M0 with a class per family and sampling")
    parser.add_argument("--model", metavar="DIR", required=True,
                        help="folder of the model, for its tokenizer.json")
    parser.add_argument("--json", action="store_true", help="all figures, with their intervals")
    parser.add_argument("--rows-max", type=int, default=ROWS_MAX,
                        help="held in memory; of a larger set some prompts are left out")
    return parser.parse_args(arguments)
