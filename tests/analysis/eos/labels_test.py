"""Families and temperatures of requests."""

import json
import os
import unittest

from synthetic_eos import LogCase, rows
from baton_analysis.eos.labels import UNKNOWN, Label, Labels
from baton_analysis.errors import InputError


class LabelsTest(LogCase):

    def families(self, content):
        path = os.path.join(self.folder, "families.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)
        return path

    def test_tag_and_temperature_come_from_the_summaries(self):
        log = self.written(rows("a", [0.5]))
        self.write_summaries(
            log,
            {"request_id": "a", "tag": "story", "max_tokens": 64,
             "sampling": {"temperature": 0.800000011920929}},
            {"request_id": "b", "sampling": {"temperature": 0}})
        labels = Labels()
        labels.read_summaries(log)
        self.assertEqual(labels.of("a"), Label("story", 0.8, 64))
        self.assertEqual(labels.of("b"), Label(None, 0.0))
        self.assertEqual(labels.of("c"), UNKNOWN)

    def test_a_families_file_stands_above_tags(self):
        log = self.written(rows("a", [0.5]))
        self.write_summaries(log, {"request_id": "a", "tag": "story"})
        labels = Labels()
        labels.read_summaries(log)
        labels.read_families(self.families(json.dumps({"a": "list"})))
        self.assertEqual(labels.of("a").family, "list")

    def test_a_log_without_summaries_is_told(self):
        log = self.written(rows("a", [0.5]))
        labels = Labels()
        labels.read_summaries(log)
        self.assertEqual(labels.files_without_summaries, [log])

    def summaries(self, content: bytes):
        log = self.written(rows("a", [0.5]))
        with open(log + ".requests.jsonl", "wb") as file:
            file.write(b'{"request_id":"a","temperature":1}\n' + content)
        labels = Labels()
        labels.read_summaries(log)
        return labels

    def test_summaries_of_another_shape_are_refused_with_their_line(self):
        for line in (b'{"request_id":"b","tag":7}', b'{"request_id":["b"]}', b"[" * 200_000,
                     b'{"request_id":"b","temperature":' + b"9" * 400 + b"}",
                     b'{"request_id":"b","max_tokens":"64"}', b'{"request_id":"b","max_tokens":0}',
                     b'{"request_id":"b","temperature":NaN}', b'{"request_id":"\xff"}'):
            with self.subTest(line=line[:40]), self.assertRaisesRegex(InputError, "line 2"):
                self.summaries(line + b"\n")

    def test_a_cut_last_summary_is_left_out_and_told(self):
        for cut in (b'{"request_id":"b', '{"request_id":"é'.encode()[:-1]):
            labels = self.summaries(cut)
            self.assertEqual((labels.cut_lines, labels.of("a")), (1, Label(None, 1.0)))

    def test_families_of_another_shape_are_refused(self):
        for content in ("[]", '{"a": 1}', "{", "[" * 200_000):
            with self.assertRaisesRegex(InputError, "--families"):
                Labels().read_families(self.families(content))


if __name__ == "__main__":
    unittest.main()
