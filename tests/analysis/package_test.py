"""What `pip install analysis/` installs."""

import pathlib
import tomllib
import unittest

ANALYSIS = pathlib.Path(__file__).resolve().parents[2] / "analysis"


class PackageTest(unittest.TestCase):
    def test_every_folder_of_the_library_is_installed(self):
        listed = tomllib.loads((ANALYSIS / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
        folders = {path.parent for path in (ANALYSIS / "baton_analysis").rglob("*.py")}
        self.assertEqual(sorted(listed), sorted(".".join(path.relative_to(ANALYSIS).parts) for path in folders))


if __name__ == "__main__":
    unittest.main()
