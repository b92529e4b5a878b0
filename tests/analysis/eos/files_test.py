"""Logs in several files, some of them compressed."""

import builtins
import itertools
import os
import unittest
from unittest import mock

import zstandard
from synthetic_eos import LogCase, rows
from baton_analysis.eos.files import open_lines, open_logs
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
        self.assertEqual(self.read_of([log]), [log + ".9", log + ".10.zst", log])
        self.assertEqual(self.read_of([log + ".10.zst", log + ".9"]), [log + ".9", log + ".10.zst"])
        self.assertEqual(self.read_of([log + ".9", log]), self.read_of([log]))
        os.remove(log)
        self.assertEqual(self.read_of([log]), [log + ".9", log + ".10.zst"])
        absent = os.path.join(self.folder, "no", "log")
        with self.assertRaisesRegex(InputError, f"{absent} cannot be read: no such file"):
            self.read_of([absent, log])

    def read_of(self, names):
        paths = []
        with open_logs(names) as files:
            for path, lines in files:
                lines.close()
                paths.append(path)
        return paths

    def ids(self, sequences):
        return [sequence.request_id for sequence in sequences]

    def test_a_log_that_is_rotated_meanwhile_loses_nothing(self):
        self.written(rows("a", [0.5]), name="eos.jsonl.1")
        log = self.written(rows("b", [0.5]), rows("c", [0.5]))
        sequences = LogReader([log]).sequences()
        found = self.ids([next(sequences)])
        os.rename(log, log + ".2")
        self.written(rows("d", [0.5]))
        self.assertEqual(found + self.ids(sequences), ["a", "b", "c"])

    def test_a_part_that_is_compressed_meanwhile_is_read(self):
        self.written(rows("a", [0.5]), name="eos.jsonl.1")
        part = self.written(rows("b", [0.5]), name="eos.jsonl.2")
        log = self.written(rows("c", [0.5]))
        for names in ([log], [log + ".1", part]):
            sequences = LogReader(names).sequences()
            found = self.ids([next(sequences)])
            self.compress(part)
            self.assertEqual((found + self.ids(sequences))[:2], ["a", "b"])
            os.rename(self.plain_again(part), part)

    def plain_again(self, part):
        with open_lines(part + ".zst") as packed, open(part + ".new", "wb") as file:
            file.write(packed.read())
        os.remove(part + ".zst")
        return part + ".new"

    def test_a_part_that_goes_while_the_log_is_read_is_told(self):
        for name in ("eos.jsonl.1", "eos.jsonl.2"):
            self.written(rows("of " + name, [0.5]), name=name)
        log = self.written(rows("last", [0.5]))
        # The oldest may go before anything is read: a moment later nobody had seen it.
        sequences = LogReader([log]).sequences()
        with mock.patch("baton_analysis.eos.files.open_lines", side_effect=open_lines) as opening:
            opening.side_effect = lambda path: (os.remove(path) if path == log + ".1" else None,
                                                open_lines(path))[1]
            self.assertEqual(self.ids(sequences), ["of eos.jsonl.2", "last"])
        self.written(rows("of eos.jsonl.1", [0.5]), name="eos.jsonl.1")
        sequences = LogReader([log]).sequences()
        next(sequences)
        os.remove(log + ".2")
        with self.assertRaisesRegex(InputError, "eos.jsonl.2 was removed before it was read"):
            next(sequences)

    def test_a_log_between_two_files_is_waited_for(self):
        log = self.written(rows("a", [0.5]))
        os.rename(log, log + ".1")
        with mock.patch("time.sleep", side_effect=lambda _: self.written(rows("b", [0.5]))):
            self.assertEqual(self.ids(LogReader([log]).sequences()), ["a", "b"])

    def test_a_log_that_is_rotated_without_end_is_told(self):
        log = self.written(rows("a", [0.5]))
        numbers = itertools.count(1)
        def rotate(path):
            os.rename(path, f"{path}.{next(numbers)}")
            self.written(rows("b", [0.5]))
            return open_lines(path)
        with mock.patch("baton_analysis.eos.files.open_lines", rotate), mock.patch("time.sleep"):
            with self.assertRaisesRegex(InputError, "rotated faster than it can be opened"):
                next(LogReader([log]).sequences())

    def test_summaries_of_a_log_that_is_rotated_meanwhile_are_all_read(self):
        log = self.written(rows("b", [0.5]))
        self.write_summaries(log, {"request_id": "b", "tag": "of b"})
        part = self.written(rows("a", [0.5]), name="eos.jsonl.1")
        self.write_summaries(part, {"request_id": "a", "tag": "of a"})

        def rotate(path):
            lines = open_lines(path)
            if path == part + ".requests.jsonl":
                for end in ("", ".requests.jsonl"):
                    os.rename(log + end, log + ".2" + end)
                    self.written(name="eos.jsonl" + end)
            return lines

        labels = Labels()
        with mock.patch("baton_analysis.eos.files.open_lines", rotate):
            labels.read_summaries(log)
        self.assertEqual([labels.of(name).family for name in "ab"], ["of a", "of b"])

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
