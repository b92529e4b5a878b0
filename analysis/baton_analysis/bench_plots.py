"""Draws what `baton bench` measured: python3 -m baton_analysis.bench_plots RESULT.json ROWS.jsonl --out DIR

Prints the path of every picture on standard output and, on standard error, why a picture is left out.
Exit codes: 0 drawn, 2 wrong input or matplotlib missing.
"""

import argparse
import functools
import sys

try:
    import matplotlib  # noqa: F401
except ImportError:
    if __name__ != "__main__":
        raise
    print("bench_plots needs matplotlib; type: apt-get install python3-matplotlib", file=sys.stderr)
    sys.exit(2)

from baton_analysis import cdf_plot, drawing, load_plot, search_plots, timeline_plot
from baton_analysis.errors import InputError
from baton_analysis.result import read_result
from baton_analysis.rows import read_rows

# Name of the file and what draws it: (result, rows or None) -> a figure, or why there is none.
OF_SEARCHES = (
    ("latency", search_plots.latency),
    ("goodput", search_plots.goodput),
    ("pareto", search_plots.pareto),
)
OF_RUNS = (
    ("cdf", cdf_plot.cdf),
    ("timeline", timeline_plot.timeline),
    ("load", load_plot.load),
)


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    try:
        result = read_result(options.result)
        rows = read_rows(options.rows) if options.rows else None
        pictures = (*OF_SEARCHES, *OF_RUNS) if result.search else OF_RUNS
        drawing.draw_all([(name, functools.partial(draw, result, rows)) for name, draw in pictures], options,
                         options.result, "baton bench")
    except InputError as error:
        print(f"bench_plots: {error}", file=sys.stderr)
        return 2
    return 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench_plots", description="Draws what `baton bench` measured.")
    parser.add_argument("result", metavar="RESULT.json", help="what --out wrote")
    parser.add_argument("rows", metavar="ROWS.jsonl", nargs="?",
                        help="what --rows wrote; without it only pictures of a search are drawn")
    drawing.add_options(parser)
    return parser.parse_args(arguments)


def run():
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    run()
