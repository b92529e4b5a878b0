"""Small weights and small KV caches stay as near the model in bfloat16 as docs/quantization.md
tells, by a tenth of its text."""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from cluster import BIN, MAKE_GGUF, PATIENCE_S, ROOT

DEMO_MODEL = ROOT / "models/demo"  # which the bounds are of
DOCUMENTS = 40
# What bench_quantized compares, the least percentage of likeliest tokens that are the same, and the
# largest divergence in nats per token: two to three times what it is, which machines differ in.
BOUNDS = {
    "w8": (99, 0.00001),
    "w4": (97, 0.0005),
    "w4-head": (97, 0.0005),  # and an output projection of 8 bits
    "q8.gguf": (99, 0.00002),
    "demo,int8": (99.5, 0.000007),
    "demo,fp8": (99, 0.00007),
}
MOST_PERPLEXITY = 1.005  # times that of bfloat16
LINE = re.compile(r"(\S+) .* perplexity ([\d.]+) +same likeliest ([\d.]+) % +divergence (-?[\d.]+)")


class NearnessTest(unittest.TestCase):
    def test_is_within_bounds(self):
        with tempfile.TemporaryDirectory(prefix="baton-nearness-") as name:
            folder = pathlib.Path(name)
            (folder / "demo").symlink_to(DEMO_MODEL)
            self.make(folder)
            models = [folder / model for model in ("demo", *BOUNDS)]
            run = subprocess.run([BIN / "bench_quantized", folder / "text", *models],
                                 capture_output=True, text=True, timeout=10 * PATIENCE_S,
                                 check=False)
        self.assertEqual(run.returncode, 0, run.stderr)
        print(run.stdout)
        found = {pathlib.Path(model).name: tuple(map(float, numbers))
                 for model, *numbers in LINE.findall(run.stdout)}
        self.assertEqual(found.keys(), {"demo", *BOUNDS}, run.stdout)
        perplexity, same, divergence = found.pop("demo")
        self.assertEqual((same, divergence), (100, 0), "the original beside itself")
        for model, (least_same, most_divergence) in BOUNDS.items():
            with self.subTest(model):
                self.assertLess(found[model][0], MOST_PERPLEXITY * perplexity)
                self.assertGreater(found[model][1], least_same)
                self.assertLess(found[model][2], most_divergence)

    @staticmethod
    def make(folder):
        def run(*command, **options):
            subprocess.run(command, check=True, timeout=PATIENCE_S, **options)
        with open(folder / "text", "w", encoding="utf-8") as text:
            run(sys.executable, "-B", DEMO_MODEL / "held_out_text.py",
                "--documents", str(DOCUMENTS), stdout=text)
        for name, scheme, head in (("w8", "w8", "keep"), ("w4", "w4", "keep"),
                                   ("w4-head", "w4", "w8")):
            run(BIN / "baton", "model", "quantize", DEMO_MODEL, folder / name, "--scheme", scheme,
                "--lm-head", head, "--group", "32", stdout=subprocess.DEVNULL)
        run(MAKE_GGUF, DEMO_MODEL, folder / "q8.gguf", "Q8_0", stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    unittest.main()
