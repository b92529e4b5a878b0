"""Dashboards, read into the types that Grafana's makers generate from its schema: nothing is unknown to these.

The types are a package of PyPI for the version of Grafana in compose.yaml. It is fetched once, into the folder of the
variable BATON_GRAFANA_TYPES; where nobody can be asked for it, this is skipped.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

import yaml

import dashboards

HERE = pathlib.Path(__file__).resolve().parent / "grafana_types"
PINS = HERE / "requirements.txt"
FOLDER = pathlib.Path(os.environ.get("BATON_GRAFANA_TYPES", dashboards.ROOT / "build/grafana-types"))
SKIPPED = 77
# How pip says that it reaches no registry.
OFFLINE = ("NewConnectionError", "ConnectTimeoutError", "Name or service not known", "Connection refused",
           "Temporary failure in name resolution", "Network is unreachable")


def prepare():
    """Makes the folder unless it is there; exits where that cannot be."""
    mark = FOLDER / "made"
    if mark.exists() and mark.read_bytes() == PINS.read_bytes():
        return
    for command in (["/usr/bin/python3", "-m", "venv", "--clear", FOLDER],
                    [FOLDER / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
                     "--require-hashes", "--only-binary", ":all:", "--requirement", PINS]):
        made = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
        if made.returncode != 0:
            said = made.stdout + made.stderr
            offline = any(sign in said for sign in OFFLINE)
            print(f"{'SKIPPED: nobody to fetch from' if offline else 'pip failed'}: {said}")
            sys.exit(SKIPPED if offline else 1)
    mark.write_bytes(PINS.read_bytes())


def read_back(dashboard):
    result = subprocess.run([FOLDER / "bin/python", "-B", HERE / "read_back.py"], input=json.dumps(dashboard),
                            capture_output=True, text=True, timeout=60, check=False)
    if result.returncode != 0:
        raise AssertionError(result.stderr)
    return json.loads(result.stdout)


def lost(ours, theirs, where=""):
    """Paths of what did not come back as it was."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key, value in ours.items():
            # Null is as good as absent.
            if key not in theirs and value is not None:
                yield f"{where}/{key}"
            elif key in theirs:
                yield from lost(value, theirs[key], f"{where}/{key}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, (one, other) in enumerate(zip(ours, theirs)):
            yield from lost(one, other, f"{where}/{number}")
    elif ours != theirs:
        yield f"{where}: {ours!r} became {theirs!r}"


class GrafanaTypesTest(unittest.TestCase):
    def test_nothing_is_unknown_to_grafana(self):
        for uid, dashboard in dashboards.read().items():
            with self.subTest(uid):
                self.assertEqual(list(lost(dashboard, read_back(dashboard))), [])

    def test_what_is_unknown_is_found(self):
        dashboard = dashboards.read()["baton-overview"]
        panel = next(one for one in dashboard["panels"] if one["type"] == "stat")
        panel["options"]["colourMode"] = "value"
        panel["fieldConfig"]["defaults"]["units"] = "s"
        self.assertEqual({path.rpartition("/")[2] for path in lost(dashboard, read_back(dashboard))},
                         {"colourMode", "units"})

    def test_they_are_of_the_version_that_compose_starts(self):
        image = yaml.safe_load((dashboards.ROOT / "deploy/docker/compose.yaml").read_text())["services"]["grafana"]["image"]
        started = re.search(r":(\d+\.\d+)\.\d+$", image)[1]
        self.assertIn(f"!{started}.", PINS.read_text())


if __name__ == "__main__":
    prepare()
    unittest.main()
