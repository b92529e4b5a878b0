"""The predictor file: what is written is read, and what is not whole is refused."""

import os
import tempfile
import unittest

from baton_analysis.errors import InputError
from baton_analysis.predict import file

MODEL = {"kind": "survival", "classes": {"all": {"steps": [1], "hazard": [.5]}}, "default": "all"}


class FileTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "eos_predictor.json")
        self.body = file.body_of(fingerprint="f", name="M0", made_by="test", model=MODEL,
                                 tail_mean=2048)

    def refused(self, content: bytes, words: str):
        with self.assertRaisesRegex(InputError, words):
            file.parsed(content, "p.json")

    def test_it_comes_back(self):
        file.write(self.path, self.body)
        self.assertEqual(file.read(self.path), self.body)
        self.assertEqual(os.listdir(os.path.dirname(self.path)), ["eos_predictor.json"])

    def test_damage_is_told(self):
        good = file.text_of(self.body).encode()
        self.refused(good.replace(b'"hazard":[0.5]', b'"hazard":[0.6]'), "damaged: the checksum")
        self.refused(good[:-9], "no predictor file")
        self.refused(b"{}\n", "no predictor file")
        self.refused(good.replace(b'"version":1', b'"version":2'), "version 2, expected 1")

    def test_other_contents_are_told(self):
        for change, words in (({
                "bins": [1, 2]
        }, "has the bins"), ({
                "model": {
                    "kind": "oracle"
                }
        }, "kind 'oracle'")):
            self.refused(file.text_of(self.body | change).encode(), words)
        del self.body["calibration"]
        self.refused(file.text_of(self.body).encode(), "lacks calibration")

    def test_a_folder_that_is_not_there(self):
        with self.assertRaisesRegex(InputError, "cannot be written"):
            file.write(os.path.join(self.path, "x"), self.body)
        with self.assertRaisesRegex(InputError, "cannot be read"):
            file.read(self.path)

    def test_a_link_stays(self):
        link = os.path.join(os.path.dirname(self.path), "latest.json")
        os.symlink("eos_predictor.json", link)
        file.write(link, self.body)
        self.assertEqual(os.readlink(link), "eos_predictor.json")
        self.assertFalse(os.path.islink(self.path))
        self.assertEqual(file.read(self.path), self.body)

    def test_a_pipe_is_written_to(self):
        pipe = os.path.join(os.path.dirname(self.path), "pipe")
        os.mkfifo(pipe)
        with os.fdopen(os.open(pipe, os.O_RDWR | os.O_NONBLOCK), "rb", buffering=0) as end:
            file.write(pipe, self.body)
            self.assertEqual(end.read(1 << 16), file.text_of(self.body).encode())

    def test_an_open_file_stays_the_one_that_is_open(self):
        with open(self.path, "wb+") as opened:
            file.write(f"/dev/fd/{opened.fileno()}", self.body)
            self.assertEqual(opened.read(), file.text_of(self.body).encode())


if __name__ == "__main__":
    unittest.main()
