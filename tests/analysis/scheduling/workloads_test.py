"""Windows of traces and shares of recorded answers."""

import csv
import json
import os
import tempfile
import unittest

from baton_analysis.errors import InputError
from baton_analysis.scheduling import workloads


class WorkloadsTest(unittest.TestCase):

    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def trace(self, rows):
        path = os.path.join(self.folder, "conv.csv")
        with open(path, "w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([workloads.HEADER, *rows])
        return path

    def test_windows_follow_each_other(self):
        rows = [[f"2023-11-16 18:59:{10 + i}.5", str(i + 1), "5"] for i in range(10)]
        windows = workloads.cut_trace(self.trace(rows), os.path.join(self.folder, "w"), 3, 3)
        with open(windows[1], encoding="utf-8") as file:
            self.assertEqual([row[1] for row in csv.reader(file)], ["ContextTokens", "4", "5", "6"])
        self.assertEqual(workloads.trace_rate(windows[2]), 1.0)

    def test_a_rate_is_right_over_midnight(self):
        path = self.trace([["2023-11-16 23:59:59.0", "1", "1"], ["2023-11-17 00:00:03.0", "1", "1"]])
        self.assertEqual(workloads.trace_rate(path), 0.25)

    def test_traces_that_are_none_or_too_short_are_told(self):
        with self.assertRaisesRegex(InputError, "--azure"):
            workloads.cut_trace(os.path.join(self.folder, "absent.csv"), self.folder, 1, 1)
        with self.assertRaisesRegex(InputError, "has 1 rows.* 6 rows at least"):
            workloads.cut_trace(self.trace([["2023-11-16 18:59:10.5", "1", "1"]]), self.folder, 2, 3)

    def test_a_mix_has_short_and_long_answers_at_one_request_per_second(self):
        path = workloads.write_mix(self.folder, 3, 4000)
        with open(path, encoding="utf-8") as file:
            rows = list(csv.reader(file))[1:]
        long = sum(int(row[2]) > 700 for row in rows)
        self.assertAlmostEqual(long / 4000, 0.2, delta=0.03)
        self.assertAlmostEqual(workloads.trace_rate(path), 1, delta=0.08)
        self.assertTrue(all(64 <= int(row[1]) <= 512 for row in rows))
        other = workloads.write_mix(self.folder, 4, 4000)
        with open(path, encoding="utf-8") as one, open(other, encoding="utf-8") as two:
            self.assertNotEqual(one.read(), two.read())

    def dataset(self):
        os.makedirs(os.path.join(self.folder, "sampled"))
        requests, rows = [], []
        for index, split in enumerate(("train", "test", "held_out", "test", "validation", "test")):
            name = f"story-{index}"
            requests.append({"request_id": name, "prompt_index": index, "temperature": index / 2, "top_p": 0.9,
                             "finish_reason": "length" if index == 3 else "stop_eos"})  # yapf: disable
            rows += [f'{{"request_id":"{name}","step":{step}}}\n' for step in (1, 2)]
        splits = ("train", "test", "held_out", "test", "validation", "test")
        for name, lines in (("split.jsonl", [json.dumps({"split": split}) + "\n" for split in splits]),
                            ("sampled/requests.jsonl", [json.dumps(each) + "\n" for each in requests]),
                            ("sampled/rows.jsonl", rows)):  # yapf: disable
            with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
                file.writelines(lines)

    def test_answers_are_those_that_no_predictor_was_trained_on_each_dealt_once(self):
        self.dataset()
        paths = workloads.cut_answers(self.folder, os.path.join(self.folder, "parts"), 2)
        dealt = []
        for path in paths:
            with open(path, encoding="utf-8") as file:
                dealt.append([json.loads(line)["request_id"] for line in file])
        self.assertEqual(sorted(set(dealt[0] + dealt[1])), ["story-1", "story-2", "story-5"])
        self.assertFalse(set(dealt[0]) & set(dealt[1]))
        for path, ids in zip(paths, dealt):
            with open(path + ".requests.jsonl", encoding="utf-8") as file:
                drawn = {line["request_id"]: line["sampling"] for line in map(json.loads, file)}
            self.assertEqual(drawn.keys(), set(ids))
            for request, sampling in drawn.items():
                self.assertEqual(sampling, {"temperature": int(request[-1]) / 2, "top_p": 0.9})
        # The rows of an answer stay together and in order.
        self.assertEqual(dealt[1], [dealt[1][0]] * 2)

    def test_a_data_set_that_is_none_or_too_small_is_told(self):
        with self.assertRaisesRegex(InputError, "no data set"):
            workloads.cut_answers(self.folder, self.folder, 2)
        self.dataset()
        with self.assertRaisesRegex(InputError, "has 3 answers to test prompts; expected at least 4"):
            workloads.cut_answers(self.folder, self.folder, 4)


if __name__ == "__main__":
    unittest.main()
