"""scripts/elastic_study.py with a simulator that only pretends, and the traces that it writes."""

import json
import pathlib
import random
import stat
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import elastic_study  # noqa: E402

# 90 % of the requests keep the SLO where workers are elastic, 75 % where a split is by cost, else 60 %.
FAKE_BATON = """#!/bin/sh
share=0.6
case "$*" in *--elastic*) share=0.9;; *"below auto"*) share=0.75;; esac
printf '{"policies": [{"runs": [{"goodput_share": %s, "role_changes": 4,' "$share"
printf '"ttft_ms": {"mean": 20}, "e2e_ms": {"mean": 300}}]}]}'
"""
TRACE = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "2023-11-16 18:15:46.6805900,374,44\n" * 5


class ElasticStudyTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        baton = self.folder / "baton"
        baton.write_text(FAKE_BATON)
        baton.chmod(baton.stat().st_mode | stat.S_IXUSR)
        for name in ("code", "conv"):
            (self.folder / f"{name}.csv").write_text(TRACE)

    def run_study(self, question, *more):
        return subprocess.run(
            [sys.executable, "-B", ROOT / "scripts/elastic_study.py", question, "--bin", self.folder, "--traces",
             self.folder, "--seeds", "2", "--seconds", "2", *more], capture_output=True, text=True, timeout=100)

    def test_roles_compares_elastic_workers_with_the_best_split(self):
        out = self.folder / "out.json"
        done = self.run_study("roles", "--out", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [line for line in done.stdout.splitlines() if line.startswith("| ttft")]
        self.assertEqual(len(rows), 6)
        self.assertIn("| 60.0 ± 0.0 | 3 + 3 | 75.0 ± 0.0 | 90.0 ± 0.0 | 50 ± 0 | 20 ± 0 | 4 ± 0 |", rows[0])
        self.assertEqual(len(json.loads(out.read_text())), 6 * 9 * 2)

    def test_says_what_is_missing_and_where(self):
        (self.folder / "code.csv").write_text("a,b\n1,2\n")
        done = self.run_study("roles")
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertRegex(done.stderr, r"code\.csv.*ContextTokens.*--traces")
        self.assertNotIn("Traceback", done.stderr)
        (self.folder / "code.csv").write_text(TRACE.splitlines()[0])
        self.assertIn("code.csv has no request", self.run_study("roles").stderr)
        (self.folder / "code.csv").unlink()
        done = self.run_study("roles")
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"code\.csv.*--traces")
        (self.folder / "code.csv").write_text(TRACE)
        (self.folder / "baton").unlink()
        done = self.run_study("roles")
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, "no program .*--bin")
        self.assertEqual(self.run_study("roles", "--seconds", "0").returncode, 2)

    def test_one_seed_gives_equal_traces_to_all(self):
        mix = elastic_study.Mix("two", [(10, 3), (20, 4)])
        texts = []
        for name in ("a", "b"):
            elastic_study.write_trace(self.folder / name, 5, [(mix, 50, 2), (mix, 10, 2)])
            texts.append((self.folder / name).read_text())
        self.assertEqual(texts[0], texts[1])
        header, *rows = texts[0].splitlines()
        self.assertEqual(header, "TIMESTAMP,ContextTokens,GeneratedTokens")
        self.assertEqual({row.split(",", 1)[1] for row in rows}, {"10,3", "20,4"})
        self.assertEqual(rows, sorted(rows))
        self.assertGreater(sum(row < "2000-01-01 00:00:02" for row in rows), len(rows) / 2)

    def test_an_interval_is_that_of_students_t(self):
        draw = random.Random(1)
        held = 0
        for _ in range(2000):
            middle, half = map(float, elastic_study.cell([draw.gauss(0, 1) for _ in range(5)], 4).split(" ± "))
            held += abs(middle) <= half
        self.assertAlmostEqual(held / 2000, 0.95, delta=0.02)

    def test_what_the_simulator_refuses_is_told(self):
        (self.folder / "baton").write_text("#!/bin/sh\necho 'no such flag' >&2\nexit 2\n")
        done = self.run_study("rates")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("no such flag", done.stderr)


if __name__ == "__main__":
    unittest.main()
