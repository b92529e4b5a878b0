"""Draws what `baton sim` said: python3 -m baton_analysis.sim_plots RESULT.json… --out DIR

Prints the path of every picture on standard output and, on standard error, why a picture is left out.
Exit codes: 0 drawn, 2 wrong input or matplotlib missing.
"""

import argparse
import functools
import importlib.util
import sys

if importlib.util.find_spec("matplotlib") is None and __name__ == "__main__":
    print("sim_plots needs matplotlib; type: apt-get install python3-matplotlib", file=sys.stderr)
    sys.exit(2)

from baton_analysis import drawing, sim_pictures
from baton_analysis.errors import InputError
from baton_analysis.sim_result import read_results

PICTURES = (
    ("latency", sim_pictures.latency),
    ("service", sim_pictures.service),
    ("cdf", sim_pictures.cdf),
    ("timeline", sim_pictures.timeline),
)


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    try:
        result = read_results(options.results)
        pictures = PICTURES if len(options.results) == 1 else (*PICTURES, ("load", sim_pictures.load))
        drawing.draw_all([(name, functools.partial(draw, result)) for name, draw in pictures], options,
                         " and ".join(options.results), "baton sim --json")
    except InputError as error:
        print(f"sim_plots: {error}", file=sys.stderr)
        return 2
    return 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="sim_plots", description="Draws what `baton sim` said.")
    parser.add_argument("results", metavar="RESULT.json", nargs="+",
                        help="what --json printed; of several, as of many loads, policies are joined")
    drawing.add_options(parser)
    return parser.parse_args(arguments)


def run():
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    run()
