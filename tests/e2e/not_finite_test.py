"""A model that computes no numbers behind one token of its vocabulary: requests without it notice nothing."""

import json
import pathlib
import shutil
import struct
import tempfile
import unittest

from cluster import DEMO_MODEL, Cluster
from fp8_test import read, write

POISON = 1999
STORIES = [{"request_id": f"story{i}", "temperature": 0, "max_tokens": 40,
            "messages": [{"role": "user", "content": text}]}
           for i, text in enumerate(["Tell me a story about a fox.", "What is 7 + 5?", "Write a list of four words."])]


def poisoned(request_id, place, **more):
    ids = list(range(100, 160))
    ids[place] = POISON
    return {"request_id": request_id, "token_ids": ids, "temperature": 0, "max_tokens": 8, **more}


def spoil(folder):
    """A copy of the demo model in which the embedding of POISON is NaN; its output projection is what it was."""
    shutil.copytree(DEMO_MODEL, folder)
    tensors = read(folder / "model.safetensors")
    dtype, shape, data = tensors["model.embed_tokens.weight"]
    tensors["lm_head.weight"] = dtype, shape, data
    nan, row = struct.pack("<H", 0x7FC0), 2 * shape[1]
    tensors["model.embed_tokens.weight"] = (
        dtype, shape, data[:POISON * row] + nan * shape[1] + data[(POISON + 1) * row:])
    write(folder / "model.safetensors", tensors)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": False}))


class NotFiniteTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="baton-not-finite-")
        cls.addClassCleanup(folder.cleanup)
        cls.model = pathlib.Path(folder.name) / "model"
        spoil(cls.model)

    def answers(self, service, requests, **options):
        return [(answer["token_ids"], answer["text"], answer["finish_reason"])
                for answer in service.generate(requests, "--chat", **options)]

    def check(self, prefill):
        with Cluster(decode=2, prefill=prefill) as service:
            expected = self.answers(service, STORIES)
        with Cluster(model=self.model, decode=2, prefill=prefill) as service:
            # More of them than a worker takes for a fault of its own, beside requests that are answered.
            bad = [poisoned(f"bad{i}", i) for i in range(20)]
            mixed = [request for i, one in enumerate(bad) for request in
                     (one, {**STORIES[i % 3], "request_id": f"good{i}"})]
            found = service.generate(mixed, "--chat", concurrency=8, check=False)
            for i, (failed, good) in enumerate(zip(found[::2], found[1::2])):
                self.assertEqual((good["token_ids"], good["text"], good["finish_reason"]), expected[i % 3])
                self.assertEqual((failed["error"]["code"], failed["error"]["reason"]),
                                 ("INTERNAL", "LOGITS_NOT_FINITE"), failed)
                self.assertIn("not finite", failed["error"]["message"])
            workers = [*service.decode, *service.prefill]
            self.assertTrue(all(worker.running() for worker in workers))
            self.assertEqual(sum(worker.metrics().sum("baton_sequences_not_finite_total") for worker in workers), 40)
            self.assertEqual(service.router.metrics().sum("baton_attempts_total", outcome="not_finite"), 40)
            self.assertEqual(self.answers(service, STORIES), expected)
            service.assert_nothing_held()

    def test_nothing_but_poison_stops_no_worker(self):
        with Cluster(model=self.model, decode=1, prefill=0) as service:
            found = service.generate([poisoned(f"bad{i}", i) for i in range(40)], "--chat", check=False)
            self.assertEqual({failed["error"].get("reason") for failed in found}, {"LOGITS_NOT_FINITE"})
            self.assertTrue(service.decode[0].running())
            self.assertEqual(service.decode[0].metrics().sum("baton_sequences_not_finite_total"), 80)
            self.assertEqual(len(self.answers(service, STORIES)), len(STORIES))
            service.assert_nothing_held()

    def test_one_worker_each(self):
        self.check(prefill=1)

    def test_workers_of_their_own_prompts(self):
        self.check(prefill=0)


if __name__ == "__main__":
    unittest.main()
