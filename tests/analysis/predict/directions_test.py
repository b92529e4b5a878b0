"""Directions of a probe, chosen out of the hidden state, and that state computed again.

Needs what `scripts/eos setup` installs: runs with that Python where it is there, and where torch or
transformers are missing tells so and ends with 77, which ctest calls skipped.
"""

import base64
import contextlib
import hashlib
import io
import json
import os
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
TRAINING = ROOT / "build" / "eos_python"

try:
    import torch
    import transformers
except ImportError as error:
    python = TRAINING / "bin" / "python"
    if python.exists() and pathlib.Path(sys.prefix).resolve() != TRAINING.resolve():
        os.execv(python, [str(python), "-B", *sys.argv])
    print(f"skipped: {error}; type: scripts/eos setup", file=sys.stderr)
    sys.exit(77)

import numpy as np

from dataset_test import DatasetCase
from baton_analysis.errors import InputError
from baton_analysis.predict import directions
from baton_analysis.predict.states import States

DEMO = ROOT / "models" / "demo"
HIDDEN = 24


class ChooseTest(DatasetCase):

    def setUp(self):
        super().setUp()
        self.dataset = self.written(prompts=120)
        self.frame = directions.bare_frame(self.dataset.of("train"))
        self.rng = np.random.default_rng(3)

    def states(self, told):
        """Noise, in which `told` [rows] stands along one direction; the numbers differ in size."""
        self.size = 10.0**self.rng.uniform(-1, 1, HIDDEN)
        self.way = self.rng.normal(size=HIDDEN)
        self.way /= np.linalg.norm(self.way)
        noise = self.rng.normal(size=(self.frame.rows, HIDDEN))
        noise -= np.outer(noise @ self.way, self.way)
        told = (told - told.mean()) / told.std()
        return ((noise + np.outer(told, self.way)) * self.size).astype(np.float16)

    def share(self, found, states, told):
        """How much of what is told the products know, by least squares."""
        products = states.astype(float) @ found.T
        products -= products.mean(axis=0)
        told = told - told.mean()
        weights = np.linalg.lstsq(products, told, rcond=None)[0]
        return 1 - ((told - products @ weights)**2).sum() / (told**2).sum()

    def test_what_foretells_the_end_is_among_few_directions(self):
        told = np.log(self.frame.ends.after + self.rng.uniform(0, 1, self.frame.rows))
        states = self.states(told)
        found = directions.choose(self.frame, states, 4)
        self.assertEqual(found.shape, (4, HIDDEN))
        self.assertGreater(self.share(found, states, told), 0.9)
        drawn = np.linalg.qr(self.rng.normal(size=(HIDDEN, 4)))[0].T / states.astype(float).std(0)
        self.assertLess(self.share(drawn, states, told), 0.6)
        self.assertLess(abs(np.log10((states.astype(float) @ found.T).std())), 0.7)

    def test_no_more_than_there_are(self):
        states = self.states(self.frame.steps.astype(float))
        self.assertLessEqual(len(directions.choose(self.frame, states, 64)), HIDDEN)

    def test_the_file_is_one_that_workers_read(self):
        path = os.path.join(self.folder, "probe.json")
        wanted = self.rng.normal(size=(5, HIDDEN)).astype(np.float32)
        directions.write(path, wanted, "f1")
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        payload = base64.b64decode(found["payload"])
        self.assertEqual(hashlib.sha256(payload).hexdigest(), found["sha256"])
        numbers = np.frombuffer(payload, dtype="<f4")
        np.testing.assert_array_equal(numbers[:5 * HIDDEN].reshape(5, HIDDEN), wanted)
        np.testing.assert_array_equal(numbers[5 * HIDDEN:], np.zeros(5))
        self.assertEqual((found["kind"], found["model_fingerprint"], found["dims"]), ("linear", "f1", 5))
        self.assertNotIn("layer", found)


class StatesTest(DatasetCase):

    def setUp(self):
        super().setUp()
        self.dataset = self.written(prompts=6)
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(DEMO)
        self.prompt = self.tokenizer.apply_chat_template([{"role": "user", "content": "p"}], tokenize=False,
                                                         add_generation_prompt=True)  # yapf: disable
        self.ids = self.tokenizer(self.prompt, add_special_tokens=False)["input_ids"]
        for answer in self.dataset.answers:
            answer.prompt_length = len(self.ids)
        self.frame = directions.bare_frame(self.dataset.of("train"))

    def test_a_row_has_the_state_that_its_token_was_drawn_from(self):
        found = States(self.dataset, str(DEMO)).of(self.frame)
        model = transformers.AutoModelForCausalLM.from_pretrained(DEMO, dtype=torch.float32).model
        longest = int(np.argmax(np.diff(self.frame.starts)))
        for number in (0, longest):
            answer, start = self.frame.answers[number], self.frame.starts[number]
            for row in (0, answer.length - 2):
                ids = self.ids + answer.tokens[:row].tolist()
                with torch.no_grad():
                    wanted = model(torch.tensor([ids])).last_hidden_state[0, -1].numpy()
                np.testing.assert_allclose(found[start + row], wanted, atol=0.02)

    def test_a_model_that_was_not_recorded_is_refused(self):
        states = States(self.dataset, str(DEMO))
        found = states.of(self.frame)
        with self.assertRaisesRegex(InputError, "off by .* name the folder of the model that was"):
            states.check(self.frame, found)  # the synthetic figures are nobody's
        model = transformers.AutoModelForCausalLM.from_pretrained(DEMO, dtype=torch.float32)
        for number, answer in enumerate(self.frame.answers):
            own = found[self.frame.starts[number]:self.frame.starts[number + 1]].astype(np.float32)
            with torch.no_grad():
                said = torch.log_softmax(model.lm_head(torch.from_numpy(own)), dim=-1)
            answer.figures[:-1, 0] = said[:, [1, 2]].exp().sum(dim=-1).log().numpy()
        states.check(self.frame, found)

    def test_prompts_of_other_lengths_are_refused(self):
        self.frame.answers[-1].prompt_length += 1
        with self.assertRaisesRegex(InputError, "tokens as one message of a chat"):
            States(self.dataset, str(DEMO)).of(self.frame)

    def test_a_folder_without_a_model_is_told(self):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = directions.main([self.folder, "--model", self.model, "--out",
                                    os.path.join(self.folder, "probe.json")])  # yapf: disable
        self.assertEqual(code, 2)
        self.assertIn("cannot be read as a model", err.getvalue())


if __name__ == "__main__":
    unittest.main()
