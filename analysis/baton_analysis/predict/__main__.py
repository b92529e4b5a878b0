"""scripts/eos train, evaluate, study and directions."""

import importlib
import sys

from baton_analysis.predict.kinds import INSTALL

COMMANDS = ("train", "evaluate", "study", "directions")


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] not in COMMANDS:
        print(f"eos: expected {' or '.join(COMMANDS)}", file=sys.stderr)
        return 2
    try:
        command = importlib.import_module(f"baton_analysis.predict.{arguments[0]}")
    except ImportError as error:
        print(f"eos {arguments[0]}: {error}; {INSTALL}", file=sys.stderr)
        return 2
    return command.main(arguments[1:])


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="surrogateescape")
    sys.exit(main(sys.argv[1:]))
