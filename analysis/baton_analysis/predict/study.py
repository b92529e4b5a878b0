"""`scripts/eos study DATASET --model DIR --out PAGE.md`: every kind trained, compared, told on a page.

The page keeps what a person wrote; what stands between `<!-- NAME -->` and `<!-- end NAME -->` is
made anew. Pictures lie in the folder PAGE. Trained files stay in --work, so a study that was
stopped goes on where it was; recipe.json there says of which rows and options they are, and a study
of others is refused.
"""

import argparse
import json
import os
import sys

from baton_analysis.errors import InputError
from baton_analysis.markdown import write_page
from baton_analysis.predict import boundaries, file, kinds, pages, pictures
from baton_analysis.predict.dataset import Dataset
from baton_analysis.predict.evaluate import evaluated
from baton_analysis.predict.jobs import side_by_side
from baton_analysis.predict.train import Trained, add_training_options, limit_threads, recipe

SEEDS = 3
RECIPE, RESULT = "recipe.json", "study.json"
SERVED = tuple(
    name for name in kinds.KINDS if name not in ("thresholds", "forest", "lstm", "transformer"))


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    try:
        limit_threads(options.threads)
        dataset = Dataset(options.dataset, options.rows_max)
        flags = boundaries.flags_by_id(options.model)
        chosen = [
            name for name in options.kinds
            if dataset.probe_width or not kinds.KINDS[name].needs_probe
        ]
        made_of = recipe(dataset, options)
        _claim(options.work, made_of)
        files = _trained(dataset, flags, chosen, options)
        found = evaluated(dataset, flags, files, options.jobs)
        found["data"]["trained_on"] = made_of
        with open(os.path.join(options.work, RESULT), "w", encoding="utf-8") as result:
            json.dump(found, result)
        folder = os.path.splitext(options.out)[0]
        pictures.draw(found, folder)
        write_page(options.out, pages.sections(found, os.path.basename(folder)))
        print(options.out)
    except (InputError, OSError) as error:
        print(f"eos study: {error}", file=sys.stderr)
        return 2
    return 0


def _claim(folder: str, made_of: dict):
    """The folder is for trained files of this recipe."""
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, RECIPE)
    if not os.path.exists(path):
        there = sorted(name for name in os.listdir(folder) if name != RESULT)
        if there:
            raise InputError(f"{folder} has {there[0]} but no {RECIPE}, so what its files were "
                             "trained on is not known; give another folder for --work")
        file.replace(path, json.dumps(made_of, indent=1).encode())
        return
    try:
        with open(path, encoding="utf-8") as content:
            before = json.load(content)
    except ValueError as error:
        raise InputError(
            f"{path} cannot be read: {error}; give another folder for --work") from error
    if before != made_of:
        differ = ", ".join(
            f"{key} {before.get(key)!r} (now {value!r})" for key, value in made_of.items()
            if before.get(key) != value)
        raise InputError(
            f"the files in {folder} were trained on something else: {differ}; give the "
            "same data and options, or another folder for --work")


def _trained(dataset, flags, chosen, options) -> list[str]:
    """The files of every kind and seed; those that are not there yet are trained."""
    # Seed by seed: a study that is stopped early has every kind.
    runs = [(name, seed, _path(name, seed, options)) for seed in range(1, 1 + options.seeds)
            for name in chosen if seed == 1 or kinds.KINDS[name].seeded]  # yapf: disable
    missing = [run for run in runs if not os.path.exists(run[2])]
    if options.trained_only:
        runs = [run for run in runs if run not in missing]
    elif missing:
        trained = Trained(dataset, flags, options)
        side_by_side(lambda run: trained.write(*run), missing, options.jobs)
    return [path for _, _, path in runs]


def _path(name: str, seed: int, options) -> str:
    return os.path.join(options.work, f"{name}-{seed}.{'json' if name in SERVED else 'npz'}")


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="eos study", description=__doc__)
    parser.add_argument("dataset", metavar="DATASET", help="what `scripts/eos dataset` wrote")
    parser.add_argument("--out", metavar="PAGE.md", required=True)
    parser.add_argument("--work", metavar="DIR", required=True, help="folder for trained files")
    parser.add_argument("--kinds", nargs="+", choices=tuple(kinds.KINDS), metavar="KIND",
                        default=tuple(kinds.KINDS)[2:], help="besides M0 and M1; default: all")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="of kinds that depend on one")
    parser.add_argument("--trained-only", action="store_true",
                        help="judge what lies in --work, train nothing")
    parser.add_argument("--jobs", type=int, default=1,
                        help="processes that train or judge at a time; --threads is of each")
    add_training_options(parser)
    return parser.parse_args(arguments)
