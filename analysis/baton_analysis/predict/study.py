"""`scripts/eos study DATASET --model DIR --out PAGE.md`: every kind trained, compared, told on a page.

The page keeps what a person wrote; what stands between `<!-- NAME -->` and `<!-- end NAME -->` is
made anew. Pictures lie in the folder PAGE. Trained files stay in --work, so a study that was
stopped goes on where it was.
"""

import argparse
import json
import os
import re
import sys

from baton_analysis.errors import InputError
from baton_analysis.predict import boundaries, kinds, pages, pictures
from baton_analysis.predict.dataset import Dataset
from baton_analysis.predict.evaluate import evaluated
from baton_analysis.predict.jobs import side_by_side
from baton_analysis.predict.train import Trained, add_training_options, limit_threads

SEEDS = 3
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
        os.makedirs(options.work, exist_ok=True)
        files = _trained(dataset, flags, chosen, options)
        found = evaluated(dataset, flags, files, options.jobs)
        found["data"]["train_rows_max"] = options.train_rows_max
        with open(os.path.join(options.work, "study.json"), "w", encoding="utf-8") as file:
            json.dump(found, file)
        folder = os.path.splitext(options.out)[0]
        pictures.draw(found, folder)
        write_page(options.out, pages.sections(found, os.path.basename(folder)))
        print(options.out)
    except (InputError, OSError) as error:
        print(f"eos study: {error}", file=sys.stderr)
        return 2
    return 0


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


def write_page(path: str, sections: dict[str, str]):
    text = ""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            text = file.read()
    for name, content in sections.items():
        marked = f"<!-- {name} -->\n{content.strip()}\n<!-- end {name} -->"
        pattern = re.compile(f"<!-- {name} -->.*?<!-- end {name} -->", re.DOTALL)
        if pattern.search(text):
            text = pattern.sub(lambda _: marked, text)
        else:
            text = f"{text}\n{marked}\n" if text else f"{marked}\n"
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


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
