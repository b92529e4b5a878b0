"""A GGUF file is served as the directory that it was made from; what is no such file is refused with a reason."""

import pathlib
import subprocess
import tempfile
import unittest

from cluster import BIN, DEMO_MODEL, MAKE_GGUF, PATIENCE_S, Cluster

REQUESTS = [{"request_id": f"r{i}", "temperature": 0, "max_tokens": 40,
             "messages": [{"role": "user", "content": text}]}
            for i, text in enumerate(["Tell me a story about a fox.", "What is 7 + 5?", "Write a list of four words."])]


class GgufTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="baton-gguf-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.path = pathlib.Path(cls.folder.name)
        for kind in ("", "Q8_0"):
            out = cls.path / f"demo{kind}.gguf"
            subprocess.run([MAKE_GGUF, DEMO_MODEL, out, *([kind] if kind else [])], check=True, timeout=PATIENCE_S)

    def answers(self, model, prefill):
        with Cluster(model=model, prefill=prefill) as service:
            found = service.generate(REQUESTS, "--chat", concurrency=3)
            service.assert_nothing_held()
        return [(answer["token_ids"], answer["text"], answer["finish_reason"]) for answer in found]

    def test_the_same_answers_as_from_the_directory(self):
        expected = self.answers(DEMO_MODEL, prefill=0)
        self.assertIn("stop_eos", {reason for _, _, reason in expected})
        self.assertEqual(self.answers(self.path / "demo.gguf", prefill=1), expected)

    def test_small_weights_split_and_together(self):
        small = self.path / "demoQ8_0.gguf"
        self.assertEqual(self.answers(small, prefill=1), self.answers(small, prefill=0))

    def test_other_files_are_refused(self):
        whole = (self.path / "demo.gguf").read_bytes()
        for name, content, reason in (("cut.gguf", whole[:len(whole) // 2], "truncated"),
                                      ("text.gguf", b"This is a story, and no model.", "GGUF"),
                                      ("other.gguf", whole.replace(b"\x05\0\0\0\0\0\0\0llama", b"\x05\0\0\0\0\0\0\0mamba"),
                                       "llama, qwen2, qwen3")):
            path = self.path / name
            path.write_bytes(content)
            for command in (["baton", "model", "inspect"], ["baton-decode"]):
                run = subprocess.run([BIN / command[0], *command[1:], path], capture_output=True, text=True,
                                     timeout=PATIENCE_S, check=False)
                self.assertEqual(run.returncode, 3, run.stderr)
                self.assertIn(reason, run.stderr)
                self.assertIn(name, run.stderr)


if __name__ == "__main__":
    unittest.main()
