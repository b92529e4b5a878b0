"""scripts/kube_tools says aloud that it skips, and takes no module but the one that is pinned. A script
in the PATH stands for Go, so nothing is fetched.
"""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = ROOT / "scripts/kube_tools"
PINS = ROOT / "scripts/kube_modules.txt"


class KubeToolsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.path = self.folder / "bin"
        self.path.mkdir()

    def go(self, version="go1.99.0", download="{}"):
        script = self.path / "go"
        script.write_text(f"#!/bin/sh\ncase \"$1 $2\" in\n'env GOVERSION') echo {version};;\n"
                          f"'mod download') echo '{download}';;\nesac\n")
        script.chmod(0o755)

    def make(self):
        result = subprocess.run(["/usr/bin/python3", "-B", TOOL, "--into", self.folder / "tools"],
                                capture_output=True, text=True, timeout=30, check=False,
                                env=dict(os.environ, PATH=str(self.path)))
        return result.returncode, result.stdout, result.stderr

    def test_without_go_it_skips_aloud(self):
        code, _, words = self.make()
        self.assertEqual(code, 77)
        self.assertIn("SKIPPED: helm and the schemas are built with Go 1.26 or newer, and there is none", words)

    def test_with_an_old_go_it_skips_aloud(self):
        self.go(version="go1.19.8")
        code, _, words = self.make()
        self.assertEqual(code, 77)
        self.assertIn("and this is 1.19", words)

    def test_a_module_with_another_sum_is_refused(self):
        self.go(download=json.dumps({"Sum": "h1:other", "Dir": "/nowhere"}))
        code, _, words = self.make()
        self.assertEqual(code, 1)
        self.assertIn("has the sum h1:other, kube_modules.txt expects h1:", words)
        self.assertFalse((self.folder / "tools").exists())

    def test_what_is_made_is_not_made_again(self):
        tools = self.folder / "tools"
        tools.mkdir()
        (tools / PINS.name).write_bytes(PINS.read_bytes())
        code, out, _ = self.make()
        self.assertEqual((code, out), (0, f"{tools}\n"))


if __name__ == "__main__":
    unittest.main()
