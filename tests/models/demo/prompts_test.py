"""The prompts that the demo model is judged by: different ones, as many as asked for or as there are."""

import contextlib
import io
import pathlib
import random
import sys
import unittest

DEMO = pathlib.Path(__file__).resolve().parents[3] / "models" / "demo"
sys.path.insert(0, str(DEMO))
import corpus
import dataset_prompts
import draw
import prompts


class DifferentTest(unittest.TestCase):
    def test_stops_where_there_are_no_more(self):
        rng = random.Random(1)
        found = draw.different(lambda: rng.randrange(30), 50)
        self.assertEqual(sorted(found), list(range(30)))

    def test_stops_at_the_number_and_leaves_out_what_was_drawn(self):
        rng = random.Random(1)
        found = draw.different(lambda: rng.randrange(30), 10, drawn={0, 1, 2, 3, 4})
        self.assertEqual(len(set(found)), 10)
        self.assertGreater(min(found), 4)


class EvalPromptsTest(unittest.TestCase):
    def families(self, per_family):
        found = {}
        for family, prompt in corpus.eval_prompts(7, per_family):
            found.setdefault(family, []).append(prompt)
        return found

    def test_a_small_family_is_asked_all_it_has(self):
        found = self.families(400)
        self.assertEqual(set(found), {"story", "answer", "list", "count", "json"})
        for family, asked in found.items():
            self.assertEqual(len(set(asked)), len(asked), family)
        self.assertEqual(len(found["story"]), 400)
        # 20 * 19 / 2 pairs of bounds, a tenth of them held out, in three wordings.
        self.assertLess(len(found["count"]), 90)
        self.assertGreater(len(found["count"]), 40)

    def test_more_prompts_begin_with_the_same(self):
        few, many = self.families(12), self.families(40)
        for family, asked in few.items():
            self.assertEqual(asked, many[family][:12])

    def test_the_committed_prompts_are_drawn_from_them(self):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            prompts.main()
        self.assertEqual(out.getvalue(), (DEMO / "prompts.jsonl").read_text(encoding="utf-8"))


class DatasetPromptsTest(unittest.TestCase):
    def test_a_scale_beyond_what_a_family_has_ends(self):
        found = dataset_prompts.family_prompts(1, "talk", 50)
        self.assertEqual(len({text for _, text in found}), len(found))
        self.assertGreaterEqual(len(found), 20)


if __name__ == "__main__":
    unittest.main()
