"""Logs in several files, some of them compressed."""

import builtins
import os
import unittest
from unittest import mock

import zstandard
from synthetic_eos import LogCase, rows
from baton_analysis.eos.files import files_of, open_lines, summaries_of
from baton_analysis.eos.labels import Labels
from baton_analysis.eos.log import LogReader
from baton_analysis.errors import InputError


class FilesTest(LogCase):

    def compress(self, path, frames=1):
        with open(path, "rb") as file:
            content = file.read()
        size = len(content) // frames + 1
        packer = zstandard.ZstdCompressor(write_checksum=True)
        with open(path + ".zst", "wb") as file:
            for begin in range(0, len(content), size):
                file.write(packer.compress(content[begin:begin + size]))
        os.remove(path)
        return path + ".zst"

    def test_a_log_stands_for_its_parts_in_their_order(self):
        for name in ("eos.jsonl.10.zst", "eos.jsonl.9", "eos.jsonl.9.zst", "eos.jsonl.meta.json",
                     "eos.jsonl.9.requests.jsonl", "eos.jsonl.01", "other.jsonl.1"):
            self.written(name=name)
        log = self.written()
        self.assertEqual(files_of([log]), [log + ".9", log + ".10.zst", log])
        self.assertEqual(files_of([log + ".10.zst", log + ".9"]), [log + ".9", log + ".10.zst"])
        self.assertEqual(files_of([log + ".9", log]), files_of([log]))
        os.remove(log)
        self.assertEqual(files_of([log]), [log + ".9", log + ".10.zst"])
        absent = os.path.join(self.folder, "no", "log")
        self.assertEqual(files_of([absent, "b"]), [absent, "b"])

    def test_a_request_may_lie_in_parts_of_which_some_are_compressed(self):
        whole = rows("r", [0.1, 0.2, 0.9])
        self.compress(self.written(whole[:1], name="eos.jsonl.1"))
        self.written(whole[1:2], name="eos.jsonl.2")
        log = self.written(whole[2:])
        reader = LogReader([log])
        sequence, = reader.sequences()
        self.assertEqual((sequence.length, sequence.natural, reader.gaps), (3, True, 0))

    def test_summaries_of_all_parts_are_read(self):
        for name, request_id in (("eos.jsonl.1", "a"), ("eos.jsonl.2", "b"), ("eos.jsonl", "c")):
            log = self.written(name=name)
            self.write_summaries(log, {"request_id": request_id, "tag": "of " + request_id})
        self.compress(os.path.join(self.folder, "eos.jsonl.1"))
        self.compress(os.path.join(self.folder, "eos.jsonl.1.requests.jsonl"))
        labels = Labels()
        labels.read_summaries(log)
        self.assertEqual([labels.of(name).family for name in "abc"], ["of a", "of b", "of c"])
        self.assertIsNone(summaries_of(log + ".3"))

    def test_frames_behind_each_other_are_one_file_whatever_its_name(self):
        path = self.written(rows("r", [0.5] * 500))
        with open(path, "rb") as file:
            content = file.read()
        packed = self.compress(path, frames=3)
        os.rename(packed, path)
        with open_lines(path) as file:
            self.assertEqual(file.read(), content)

    def test_a_frame_that_was_cut_off_is_told(self):
        path = self.compress(self.written(rows("r", [0.5] * 3000)))
        for size in (os.path.getsize(path) - 1, os.path.getsize(path) // 2, 3, 0):
            os.truncate(path, size)
            with self.subTest(size=size), self.assertRaisesRegex(
                    InputError, f"{path}: its zstd frame has no end.*after {size} bytes"):
                list(LogReader([path]).sequences())

    def test_a_damaged_frame_is_told(self):
        path = self.compress(self.written(rows("r", [0.5] * 3000)))
        with open(path, "r+b") as file:
            file.seek(os.path.getsize(path) // 2)
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 0x55]))
        with self.assertRaisesRegex(InputError, "is damaged"):
            list(LogReader([path]).sequences())

    def test_without_zstandard_it_says_what_to_type(self):
        path = self.compress(self.written(rows("r", [0.5])))
        found = builtins.__import__

        def without(name, *rest, **named):
            if name == "zstandard":
                raise ImportError(name)
            return found(name, *rest, **named)

        with mock.patch("builtins.__import__", without):
            with self.assertRaisesRegex(InputError, "apt-get install python3-zstandard"):
                list(LogReader([path]).sequences())


if __name__ == "__main__":
    unittest.main()
