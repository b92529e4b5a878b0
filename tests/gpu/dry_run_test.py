"""A short dry run of tests/gpu/run on the CPU backend: every kind of part, and what it writes.

    dry_run_test.py BUILD_TREE
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import build  # noqa: E402
import fp8  # noqa: E402
import test_folder  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARTS = ("facts", "golden", "steps", "weights", "grpc", "cuda_ipc", "nccl", "serve", "kills", "model", "handoff",
         "serving", "fp8", "sanitizers")


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
        for of_gpus in ("fp8", "sanitizers"):
            self.assertEqual(status.pop(of_gpus), "skipped")
        # Ways that this build does not know, or that need a library which stands in for NCCL.
        for way in ("cuda_ipc", "nccl"):
            if status[way] == "skipped":
                del status[way]
                self.assertRegex(result.stdout, rf"no --kv-transport, so no {way}|is not in this build")
        self.assertEqual(set(status.values()), {"passed"}, result.stdout)
        rows = [row for part in found["parts"] if part["name"] in status for row in part["rows"]]
        self.assertTrue(rows)
        for row in rows:
            self.assertNotEqual(row["baton"], "not measured", row)
        self.assertIn("Dry run on the CPU backend", result.stdout)

    def test_checkpoints_of_fp8_are_made_and_served(self):
        """On the CPU backend, which reads their codes as floats, and where the part is skipped."""
        with tempfile.TemporaryDirectory() as folder:
            built = build.open_tree(self.build)
            context = test_folder.context(build=built, work=pathlib.Path(folder),
                                          environment=built.environment())
            context.begin(300)
            for static in fp8.CHECKPOINTS.values():
                self.assertRegex(fp8.check(context, static),
                                 r"^8 answers equal when asked again, of their tokens 100 % side "
                                 r"by side, \d+ % in bf16 \(floats\)$")


if __name__ == "__main__":
    DryRun.build = sys.argv.pop(1)
    unittest.main()
