"""scripts/eos: what is done with EOS logs in Python."""

import sys

COMMANDS = ("report",)
_USAGE = ("usage: scripts/eos report LOG… --out DIR [--families FILE]; "
          "scripts/eos setup, train, evaluate, study, directions: see the head of that script")


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_USAGE)
        return 0 if arguments else 2
    if arguments[0] not in COMMANDS:
        print(f"eos: unknown command {arguments[0]!r}; expected {' or '.join(COMMANDS)}\n{_USAGE}",
              file=sys.stderr)
        return 2
    try:
        from baton_analysis.eos import report
    except ImportError as error:
        print(
            f"eos: {error}; type: apt-get install python3-matplotlib, or name another Python with "
            "BATON_PYTHON",
            file=sys.stderr)
        return 2
    return report.main(arguments[1:])


if __name__ == "__main__":
    # Paths are printed as they are, also those that are not UTF-8.
    sys.stdout.reconfigure(errors="surrogateescape")
    sys.exit(main(sys.argv[1:]))
