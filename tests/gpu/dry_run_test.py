"""A short dry run of tests/gpu/run on the CPU backend: every kind of part, and what it writes.

    dry_run_test.py BUILD_TREE
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARTS = ("facts", "golden", "steps", "weights", "grpc", "cuda_ipc", "nccl", "serve", "kills", "model", "handoff",
         "serving", "sanitizers")


class DryRun(unittest.TestCase):
    build = None

    def test_every_part_does_what_it_can_without_a_gpu(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder)
            result = subprocess.run(
                [ROOT / "tests/gpu/run", "--device", "cpu", "--build", self.build, "--only", ",".join(PARTS),
                 "--out", out], capture_output=True, text=True, timeout=800, check=False)
            log = (out / "log.txt").read_text(errors="replace") if (out / "log.txt").exists() else ""
            self.assertEqual(result.returncode, 0, f"{result.stderr}\n{result.stdout}\n{log[-20000:]}")
            found = json.loads((out / "result.json").read_text())
            self.assertEqual((out / "result.md").read_text(), result.stdout.rstrip("\n") + "\n")
        status = {part["name"]: part["status"] for part in found["parts"]}
        self.assertEqual(list(status), list(PARTS))
        self.assertEqual(status.pop("sanitizers"), "skipped")
        # Ways that this build does not know, or that need a library which stands in for NCCL.
        for way in ("cuda_ipc", "nccl"):
            if status[way] == "skipped":
                del status[way]
                self.assertRegex(result.stdout, rf"no --kv-transport, so no {way}|is not in this build")
        self.assertEqual(set(status.values()), {"passed"}, result.stdout)
        rows = [row for part in found["parts"] for row in part["rows"]]
        self.assertTrue(rows)
        for row in rows:
            self.assertNotEqual(row["baton"], "not measured", row)
        self.assertIn("Dry run on the CPU backend", result.stdout)


if __name__ == "__main__":
    DryRun.build = sys.argv.pop(1)
    unittest.main()
