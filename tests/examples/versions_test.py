"""The versions that the page of the examples names are those that their toolchains are held to."""

import json
import pathlib
import re
import tomllib
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


def found(pattern, path):
    """What the only group of the pattern has in a file."""
    return re.search(pattern, path.read_text(), re.M)[1]


class VersionsTest(unittest.TestCase):
    def test_the_page_names_them(self):
        package = tomllib.loads((ROOT / "clients/python/pyproject.toml").read_text())
        engines = json.loads((EXAMPLES / "node/package.json").read_text())["engines"]
        expected = {
            "Python": package["project"]["requires-python"].removeprefix(">="),
            "Go": found(r"^go (\d+\.\d+)", EXAMPLES / "go/go.mod"),
            "Node": engines["node"].removeprefix(">="),
            "Java": found(r"<maven.compiler.release>(\d+)<", EXAMPLES / "java/pom.xml"),
        }
        rows = re.findall(r"^\| (\w+) \| ([\d.]+) \|", (EXAMPLES / "README.md").read_text(), re.M)
        self.assertEqual(dict(rows), expected)


if __name__ == "__main__":
    unittest.main()
