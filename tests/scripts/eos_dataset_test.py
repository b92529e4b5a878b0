"""A data set that was begun goes on only with the prompts that it was begun with."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import eos_dataset


class PromptsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = pathlib.Path(folder.name)

    def files(self):
        return {path.name: path.read_bytes() for path in self.out.iterdir()}

    def test_the_same_seed_and_scale_go_on(self):
        split = eos_dataset.write_prompts(self.out, 1, 0.02)
        before = self.files()
        self.assertEqual(set(before), {"split.jsonl", "prompts.jsonl", "prompts_censored.jsonl"})
        self.assertEqual(eos_dataset.write_prompts(self.out, 1, 0.02), split)
        self.assertEqual(self.files(), before)
        path = self.out / "split.jsonl"
        path.write_bytes(before["split.jsonl"][:-7])  # stopped while it was written
        eos_dataset.write_prompts(self.out, 1, 0.02)
        self.assertEqual(self.files(), before)

    def test_others_are_refused_before_anything_is_written(self):
        eos_dataset.write_prompts(self.out, 1, 0.02)
        before = self.files()
        for seed, scale in ((2, 0.02), (1, 0.04)):
            with self.assertRaisesRegex(eos_dataset.DatasetError, f"--scale than {seed} and {scale}"):
                eos_dataset.write_prompts(self.out, seed, scale)
        self.assertEqual(self.files(), before)


if __name__ == "__main__":
    unittest.main()
