"""scripts/scheduling: run, page and cost."""

import argparse
import dataclasses
import json
import os
import sys

from baton_analysis.errors import InputError
from baton_analysis.scheduling import costs, pages, study
from baton_analysis.scheduling.settings import COLUMNS, SETTINGS
from baton_analysis.scheduling.simulate import Simulator

SMALL_REQUESTS = 150
COSTS = {"h100": costs.H100, "l4": costs.L4}


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    try:
        return {"run": _run, "page": _page, "cost": _cost}[options.command](options)
    except InputError as error:
        print(f"scheduling: {error}", file=sys.stderr)
        return 2


def _run(options) -> int:
    settings = [each for each in SETTINGS if not options.settings or each.name in options.settings]
    how = study.Options(work=options.work, azure=options.azure, answers=options.answers,
                        cpu_cost=options.cpu_cost, jobs=options.jobs)
    if options.small:
        settings = [dataclasses.replace(each, requests=min(each.requests, SMALL_REQUESTS)) for each in settings]
        columns = tuple(dataclasses.replace(each, tuned=each.tuned[1:3]) for each in COLUMNS)
        how = dataclasses.replace(how, loads=(study.RULE_LOAD,), seeds=(1, 2), training_seeds=(6,), columns=columns)
    simulator = Simulator(options.baton, options.work, options.predictor_file, options.model)
    found = study.run(settings, simulator, how)
    if not found["settings"]:
        raise InputError("nothing was simulated: every setting lacks what it needs, see above")
    with open(options.out, "w", encoding="utf-8") as file:
        file.write(pages.compact(found))
    print(options.out)
    return 0


def _page(options) -> int:
    try:
        with open(options.result, encoding="utf-8") as file:
            found = json.load(file)
        if found["schema"] != study.SCHEMA:
            raise ValueError(f"its schema is {found['schema']}; expected {study.SCHEMA}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{options.result} is no result of scripts/scheduling run: {error}") from error
    from baton_analysis.scheduling import pictures  # matplotlib is needed here only
    os.makedirs(options.pictures, exist_ok=True)
    for path in pictures.draw(found, options.pictures):
        print(path)
    pages.write(found, options.page, options.pictures)
    print(options.page)
    return 0


def _cost(options) -> int:
    print(json.dumps(costs.reckon(costs.LLAMA_8B, COSTS[options.device]), indent=1))
    return 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scheduling", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="simulates all of it and writes the figures")
    run.add_argument("--baton", required=True, help="the program")
    run.add_argument("--work", required=True, help="folder for parts of traces and for what was simulated already")
    run.add_argument("--out", required=True, metavar="RESULT.json")
    run.add_argument("--azure", default="", help="folder with conv.csv and code.csv")
    run.add_argument("--answers", default="", help="a data set of scripts/eos dataset")
    run.add_argument("--model", default="", help="folder of the model that gave these answers")
    run.add_argument("--predictor-file", default="", help="trained for that model")
    run.add_argument("--cpu-cost", default="", help="of that model on this machine, as baton sim fit wrote it")
    run.add_argument("--settings", nargs="+", choices=[each.name for each in SETTINGS], help="default: all")
    run.add_argument("--jobs", type=int, default=1, help="simulations at a time")
    run.add_argument("--small", action="store_true", help="a few requests, one load, two seeds: to see that it works")
    page = commands.add_parser("page", help="draws the figures and writes them into a page")
    page.add_argument("result", metavar="RESULT.json")
    page.add_argument("--page", required=True, metavar="PAGE.md")
    page.add_argument("--pictures", required=True, help="folder")
    cost = commands.add_parser("cost", help="step costs of an 8B model on a GPU, reckoned")
    cost.add_argument("device", choices=sorted(COSTS))
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
