"""What the programs that draw have in common: their options, files and messages."""

import argparse
import os
import sys
from collections.abc import Callable

import matplotlib

from baton_analysis import style
from baton_analysis.errors import InputError


def add_options(parser: argparse.ArgumentParser):
    parser.add_argument("--out", metavar="DIR", required=True, help="folder for the pictures; it is made")
    parser.add_argument("--format", choices=("svg", "png"), default="svg")


def draw_all(pictures: list[tuple[str, Callable]], options: argparse.Namespace, source: str, program: str):
    """Draws each picture, which is given as its name and what makes a figure or says why there is none. Prints the
    paths on standard output; `source` and `program` stand in errors: where the figures come from."""
    try:
        os.makedirs(options.out, exist_ok=True)
    except OSError as error:
        raise InputError(f"--out {options.out} cannot be made: {error.strerror}; give another") from error
    with matplotlib.rc_context(style.RC):
        for name, make in pictures:
            try:
                figure = make()
            except (KeyError, TypeError) as error:
                raise InputError(f"{source} does not fit {name}: {error!r}; "
                                 f"it is not a whole result of {program}") from error
            if isinstance(figure, str):
                print(f"no {name}: {figure}", file=sys.stderr)
                continue
            style.name_log_axes(figure)
            path = os.path.join(options.out, f"{name}.{options.format}")
            try:
                figure.savefig(path, metadata={"Date": None} if options.format == "svg" else None)
            except OSError as error:
                raise InputError(f"{path} cannot be written: {error.strerror}") from error
            print(path, flush=True)
