"""The data set as it is read: answers, splits, arms, projections, and what is refused."""

import json
import os
import tempfile
import unittest

import numpy as np

import synthetic_dataset
from baton_analysis.eos.statistics import auroc
from baton_analysis.errors import InputError
from baton_analysis.predict import boundaries, ceiling
from baton_analysis.predict.arms import Groups, same_prompt_noise
from baton_analysis.predict.bins import sigmoid
from baton_analysis.predict.dataset import Dataset
from baton_analysis.predict.frame import frame_of


class DatasetCase(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.join(folder.name, "set")
        self.model = os.path.join(folder.name, "model")
        synthetic_dataset.write_model(self.model)
        self.flags = boundaries.flags_by_id(self.model)

    def written(self, **options):
        synthetic_dataset.write(self.folder, **options)
        return Dataset(self.folder)

    def change(self, name, old, new):
        path = os.path.join(self.folder, name)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.assertIn(old, text)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace(old, new, 1))


    def name_prompts(self, sha_of):
        """Writes prompt_sha256 into the requests of both arms, for which `sha_of` says one."""
        for arm in ("sampled", "censored"):
            path = os.path.join(self.folder, arm, "requests.jsonl")
            with open(path, encoding="utf-8") as file:
                requests = [json.loads(line) for line in file]
            for request in requests:
                sha = sha_of(arm, request["family"], request["prompt_index"])
                request |= {"prompt_sha256": sha} if sha else {}
            synthetic_dataset.lines(path, requests)


class DatasetTest(DatasetCase):

    def test_answers_are_whole_though_their_rows_are_mixed(self):
        dataset = self.written(prompts=5, seeds=2)
        self.assertEqual(len(dataset.answers), 2 * 3 * 5 * 2)
        for answer in dataset.answers:
            self.assertEqual(answer.natural, answer.tokens[-1] == synthetic_dataset.EOS)
            self.assertEqual(answer.finish_reason == "length", not answer.natural)
            self.assertEqual(len(answer.figures), answer.length)
        self.assertEqual(dataset.fingerprint, "synthetic")

    def test_prompts_stay_in_their_split_and_a_family_is_held_out(self):
        dataset = self.written(prompts=10)
        seen = {}
        for answer in dataset.answers:
            self.assertEqual(seen.setdefault(answer.prompt, answer.split), answer.split)
            self.assertEqual(answer.split == "held_out", answer.family == "list")
        self.assertEqual(set(seen.values()), {"train", "validation", "test", "held_out"})

    def test_without_a_file_prompts_are_split_by_their_hash(self):
        synthetic_dataset.write(self.folder, prompts=60, seeds=1)
        os.unlink(os.path.join(self.folder, "split.jsonl"))
        dataset = Dataset(self.folder)
        self.assertEqual({a.prompt for a in dataset.of("train")} &
                         {a.prompt for a in dataset.of("test")}, set())
        self.assertTrue(90 < len({a.prompt for a in dataset.of("train")}) < 126)

    def test_without_a_file_a_prompt_has_one_split_wherever_it_stands(self):
        synthetic_dataset.write(self.folder, prompts=60, seeds=1)
        os.unlink(os.path.join(self.folder, "split.jsonl"))
        self.name_prompts(lambda arm, family, prompt: f"{prompt // 2:064x}")
        dataset = Dataset(self.folder)
        seen = {}
        for answer in dataset.answers:
            number = int(answer.request_id.split("-")[1])
            self.assertEqual(answer.prompt, f"{number // 2:064x}")
            self.assertEqual(seen.setdefault(number // 2, answer.split), answer.split)
        self.assertEqual(set(seen.values()), {"train", "validation", "test"})
        frame = frame_of(dataset, dataset.answers, self.flags)
        self.assertEqual(len(set(frame.prompts)), 30, "what intervals draw")
        part = Dataset(self.folder, rows_max=sum(a.length for a in dataset.answers) // 2)
        count = lambda of, prompt: sum(answer.prompt == prompt for answer in of.answers)
        for prompt in {answer.prompt for answer in part.answers}:
            self.assertEqual(count(part, prompt), count(dataset, prompt))

    def test_where_requests_lack_what_their_prompt_was_its_place_stands_for_it(self):
        synthetic_dataset.write(self.folder, prompts=6, seeds=1)
        os.unlink(os.path.join(self.folder, "split.jsonl"))
        # Of the same prompt the other arm does not say it, and both must be in one split.
        self.name_prompts(lambda arm, family, prompt: arm == "sampled" and f"{prompt:064x}")
        self.assertEqual({answer.prompt for answer in Dataset(self.folder).answers},
                         {f"{family}/{n}" for family in synthetic_dataset.FAMILIES
                          for n in range(6)})  # yapf: disable

    def test_a_prompt_in_two_splits_is_an_error(self):
        synthetic_dataset.write(self.folder, prompts=5)
        self.name_prompts(lambda arm, family, prompt: f"{family} {prompt % 3}")
        with self.assertRaisesRegex(InputError, "story/[0-4] and story/[0-4] are the same prompt"):
            Dataset(self.folder)
        # In one split they may be the same, and the first three are trained on.
        self.name_prompts(lambda arm, family, prompt: f"{family} {max(prompt, 2)}")
        dataset = Dataset(self.folder)
        self.assertEqual(len({answer.prompt for answer in dataset.answers}), 15)

    def test_a_prompt_without_a_split_is_an_error(self):
        synthetic_dataset.write(self.folder, prompts=5)
        self.change("split.jsonl", '"prompt_index": 3, "family": "story"',
                    '"prompt_index": 77, "family": "story"')
        with self.assertRaisesRegex(InputError, "no line for the prompt story/3"):
            Dataset(self.folder)

    def test_rows_of_a_frame_end_before_the_end(self):
        dataset = self.written(prompts=6)
        frame = frame_of(dataset, dataset.answers, self.flags)
        self.assertEqual(frame.rows, sum(answer.length - 1 for answer in dataset.answers))
        self.assertTrue((frame.ends.after >= 1).all())
        last = frame.starts[1:] - 1
        self.assertTrue((frame.ends.after[last] == 1).all())
        self.assertTrue(
            np.array_equal(frame.ends.natural[last], [answer.natural for answer in frame.answers]))

    def test_the_row_of_the_end_is_no_input(self):
        """With it EOS seems to foretell itself; without, here, it says nothing one step ahead."""
        dataset = self.written(prompts=40)
        answers = [answer for answer in dataset.answers if answer.natural and answer.length > 1]
        frame = frame_of(dataset, answers, self.flags)
        _, ends = frame.ends.within(1)
        ours = auroc(frame.column("lo"), ends)
        shifted = np.concatenate([answer.figures[1:, 0] for answer in answers])
        self.assertGreater(auroc(shifted, ends), 0.999)
        self.assertLess(ours, 0.6)
        # Nothing in a frame knows the row of the end: other figures there change no feature.
        for answer in answers:
            answer.figures[-1] = 0.123
        self.assertTrue(np.array_equal(frame_of(dataset, answers, self.flags).matrix, frame.matrix))

    def test_full_stops_are_boundaries(self):
        dataset = self.written(prompts=3)
        frame = frame_of(dataset, dataset.answers, self.flags)
        tokens = np.concatenate([answer.tokens[:-1] for answer in frame.answers])
        self.assertTrue(
            np.array_equal(frame.column("boundary") > 0, tokens == synthetic_dataset.STOP))

    def test_projections_belong_to_their_rows(self):
        dataset = self.written(prompts=4, projections=True)
        self.assertEqual(dataset.probe_width, synthetic_dataset.WIDTH)
        for answer in dataset.answers[:9]:
            with open(os.path.join(answer.part.folder, "rows.jsonl"), encoding="utf-8") as file:
                places = [place for place, line in enumerate(file)
                          if json.loads(line)["request_id"] == answer.request_id]  # yapf: disable
            expected = np.fromfile(os.path.join(answer.part.folder, "projections.f32"),
                                   "<f4").reshape(-1, synthetic_dataset.WIDTH)[places]
            self.assertTrue(np.array_equal(dataset.probe(answer), expected))
        frame = frame_of(dataset, dataset.answers, self.flags)
        self.assertIn("first_probe[2]", frame.names)

    def test_of_a_large_set_some_prompts_are_left_out_whole(self):
        whole = self.written(prompts=30)
        rows = sum(answer.length for answer in whole.answers)
        part = Dataset(self.folder, rows_max=rows // 2)
        self.assertGreater(part.left_out_prompts, 20)
        count = lambda dataset, prompt: sum(a.prompt == prompt for a in dataset.answers)
        for prompt in {answer.prompt for answer in part.answers}:
            self.assertEqual(count(part, prompt), count(whole, prompt))

    def test_answers_that_lack_rows_are_left_out_and_counted(self):
        synthetic_dataset.write(self.folder, prompts=4)
        self.change("sampled/rows.jsonl", '"step": 2,', '"step": 3,')
        self.assertEqual(Dataset(self.folder).left_out_requests, 1)

    def test_groups_by_arm_and_family(self):
        dataset = self.written(prompts=6)
        frame = frame_of(dataset, dataset.of("train", "validation", "test"), self.flags)
        groups = Groups(frame)
        self.assertEqual(groups.arms, ["T 0.8", "T 0.8, cut"])
        self.assertEqual(groups.families("T 0.8"), ["story", "answer", "story + answer", "all"])
        both = groups.rows("T 0.8", "story + answer")
        self.assertEqual(len(both),
                         len(groups.rows("T 0.8", "story")) + len(groups.rows("T 0.8", "answer")))

    def test_seeds_of_a_prompt_foretell_no_more_than_they_share(self):
        dataset = self.written(prompts=40, seeds=3)
        noise = same_prompt_noise([a for a in dataset.answers if a.family == "story" and a.natural])
        self.assertGreater(noise["mae"], noise["mae_median"])  # prompts share nothing here

    def test_the_ceiling_knows_what_it_was_made_of(self):
        dataset = self.written(prompts=60, ceiling=True)
        frame = frame_of(dataset, dataset.of("test"), self.flags)
        prefixes = ceiling.read(dataset, frame)
        self.assertGreater(len(prefixes.rows), 20)
        ideal = sigmoid(np.where(prefixes.after[:, 1] <= 4, 2.0, -9.0))
        constant = np.full(len(prefixes.rows), 0.3)
        found = ceiling.compare(frame, prefixes, {"survival": constant, "model": ideal}, 4)
        self.assertGreater(found["model"]["skill_of_ceiling"].value, 0.9)
        self.assertAlmostEqual(found["survival"]["skill_of_ceiling"].value, 0)
        self.assertGreater(found["ceiling"]["auroc"].value, 0.9)

    def test_the_ceiling_has_the_brier_of_the_true_chances(self):
        """However few continuations foretell: the chance that is in their frequency is taken off."""
        dataset = self.written(prompts=60, ceiling=True)
        frame = frame_of(dataset, dataset.of("test"), self.flags)
        rng = np.random.default_rng(7)
        rows = np.arange(3000) % frame.rows
        chances = rng.choice([0.02, 0.3, 0.9], len(rows))
        for count in (4, 32):
            ends = rng.random((len(rows), count)) < chances[:, None]
            prefixes = ceiling.Prefixes(rows, np.where(ends, 2.0, 9.0), np.full(ends.shape, True),
                                        np.full((len(rows), 1), 99))
            found = ceiling.compare(frame, prefixes, {"survival": np.full(len(rows), 0.4),
                                                      "model": chances}, 4)  # yapf: disable
            truth = (chances * (1 - chances)).mean()
            self.assertAlmostEqual(found["ceiling"]["brier"].value, truth, delta=0.008)
            self.assertAlmostEqual(found["model"]["skill_of_ceiling"].value, 1, delta=0.05)

    def test_of_the_ceiling_only_what_two_continuations_foretell_counts(self):
        dataset = self.written(prompts=60, ceiling=True)
        frame = frame_of(dataset, dataset.of("test"), self.flags)
        after = np.full((20, 4), 2.0)
        natural = np.full((20, 4), True)
        natural[10:, 0], after[10:, 0] = False, 1.0  # cut off too early to tell
        after[::2, 2:] = 9.0
        room = np.full((20, 1), 99)
        prefixes = ceiling.Prefixes(np.arange(20), after, natural, room)
        found = ceiling.compare(frame, prefixes, {"survival": np.full(20, 0.5)}, 4)
        # All that count were said to end: half of them did not.
        self.assertAlmostEqual(found["ceiling"]["brier"].value, 0.5)
        prefixes = ceiling.Prefixes(np.arange(20), np.full((20, 4), 2.0), np.full((20, 4), True),
                                    room)
        found = ceiling.compare(frame, prefixes, {"survival": np.full(20, 0.999),
                                                  "model": np.full(20, 0.5)}, 4)  # yapf: disable
        self.assertIsNone(found["model"]["skill_of_ceiling"].value)

    def test_what_cannot_be_read_is_told(self):
        synthetic_dataset.write(self.folder, prompts=3, projections=True)
        for name, old, new, words in (("sampled/manifest.json", '"fingerprint"', '"print"',
                                       "manifest.json cannot be read"),
                                      ("sampled/manifest.json", '"synthetic"', '"other"',
                                       "several models"), ("sampled/manifest.json", '"width": 3',
                                                           '"width": 7',
                                                           "projections.f32|several widths"),
                                      ("sampled/requests.jsonl", '"output_length"', '"length"',
                                       "requests.jsonl, line 1"),
                                      ("sampled/rows.jsonl", "{", "[",
                                       "rows.jsonl, line 1 is not JSON"),
                                      ("split.jsonl", '"train"', '"training"', "split 'training'")):
            with self.subTest(words):
                synthetic_dataset.write(self.folder, prompts=3, projections=True)
                self.change(name, old, new)
                with self.assertRaisesRegex(InputError, words):
                    Dataset(self.folder)
        with self.assertRaisesRegex(InputError, "no rows.jsonl"):
            Dataset(self.model)


class BoundariesTest(unittest.TestCase):

    def test_what_ends_a_sentence_or_a_line(self):
        both = boundaries.LINE | boundaries.SENTENCE
        for text, flags in ((".", 2), ("word.", 2), (".\n", both), ("!\")", 2), ("\n", 1), (" ", 0),
                            ("...", 2), ("…”", 2), ("。", 2), ("a", 0), (".a", 0), ("?*`", 2),
                            ("", 0), ("» ", 0), ("a\nb", 1), (")", 0)):
            self.assertEqual(boundaries.flags_of(text.encode()), flags, text)

    def test_tokens_of_sentencepiece_and_special_ones(self):
        with tempfile.TemporaryDirectory() as folder:
            content = {
                "added_tokens": [{
                    "id": 3,
                    "content": ".",
                    "special": True
                }],
                "model": {
                    "vocab": [["▁end.", 0.0], ["<0x0A>", -1.0], ["▁a", -2.0], [".", -3.0]]
                }
            }
            with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as file:
                json.dump(content, file)
            self.assertEqual(boundaries.flags_by_id(folder).tolist(), [2, 1, 0, 0])
            with self.assertRaisesRegex(InputError, "tokenizer.json cannot be read"):
                boundaries.flags_by_id(os.path.join(folder, "none"))


if __name__ == "__main__":
    unittest.main()
