"""The normed last hidden state behind every row of recorded answers, computed again out of the ids
that were recorded. A service records at most 64 products of it; to choose which, all of it is
needed."""

import json
import os

import numpy as np
import torch
import transformers

from baton_analysis.errors import InputError
from baton_analysis.predict.dataset import Answer, Dataset
from baton_analysis.predict.frame import Frame

BATCH_TOKENS = 8192


class States:

    def __init__(self, dataset: Dataset, model: str):
        transformers.utils.logging.disable_progress_bar()
        try:
            self._model = transformers.AutoModelForCausalLM.from_pretrained(
                model, dtype=torch.float32).eval().model
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(model)
        except (OSError, ValueError) as error:
            raise InputError(f"{model} cannot be read as a model: {error}; name the folder of the "
                             "model that the data set was made with") from error
        self._prompts = _prompts(os.path.join(dataset.folder, "split.jsonl"))

    def of(self, frame: Frame) -> np.ndarray:
        """[rows, hidden], float16: at each row what its token was drawn from, as probes see it."""
        found = np.empty((frame.rows, self._model.config.hidden_size), dtype=np.float16)
        order = np.argsort([answer.length for answer in frame.answers], kind="stable")
        group = []
        for number in order.tolist():
            if group and (len(group) + 1) * frame.answers[number].length > BATCH_TOKENS:
                self._compute(frame, group, found)
                group = []
            group.append(number)
        self._compute(frame, group, found)
        return found

    @torch.inference_mode()
    def _compute(self, frame, group, found):
        prompts = [self._prompt_ids(frame.answers[number]) for number in group]
        # The last two rows' tokens lead to no state that is asked for.
        ids = [
            prompt + frame.answers[number].tokens[:-2].tolist()
            for prompt, number in zip(prompts, group)
        ]
        # Padding stands behind, where causal attention does not look.
        table = torch.zeros((len(ids), max(map(len, ids))), dtype=torch.long)
        for row, own in zip(table, ids):
            row[:len(own)] = torch.tensor(own)
        states = self._model(input_ids=table, use_cache=False).last_hidden_state
        for row, prompt, number in zip(states, prompts, group):
            start, end = frame.starts[number], frame.starts[number + 1]
            found[start:end] = row[len(prompt) - 1:len(prompt) - 1 + end - start].numpy()

    def _prompt_ids(self, answer: Answer) -> list[int]:
        text = self._tokenizer.apply_chat_template(
            [{"role": "user", "content": self._prompts.get(answer.prompt, "")}],
            add_generation_prompt=True, tokenize=False)  # yapf: disable
        ids = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        if len(ids) != answer.prompt_length:
            raise InputError(
                f"the prompt {answer.prompt} has {len(ids)} tokens as one message of a chat, and "
                f"{answer.prompt_length} were recorded; expected prompts as `scripts/eos dataset` "
                "asks them, and the model that was asked")
        return ids


def _prompts(path: str) -> dict[str, str]:
    try:
        with open(path, encoding="utf-8") as file:
            entries = [json.loads(line) for line in file]
        return {f"{entry['family']}/{entry['prompt_index']}": entry["prompt"] for entry in entries}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} cannot be read: {error!r}; expected a line per prompt with "
                         "family, prompt_index and prompt") from error
