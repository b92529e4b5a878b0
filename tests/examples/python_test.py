"""The Python example, with the package that scripts/python_client built."""

import sys

import scenes

python = scenes.BUILD.parent / "python-client/venv/bin/python"
if not python.exists():
    print(f"skipped: {python} was not made", file=sys.stderr)
    sys.exit(77)
scenes.check([python, "-B", scenes.EXAMPLES / "python/example.py"])
