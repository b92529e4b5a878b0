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
CHECKED_ANSWERS = 8
# Of log P(EOS) in the median row: bf16 is off by some hundredths, another model by several.
LOGPROB_OFF_MAX = 0.5


class States:

    def __init__(self, dataset: Dataset, model: str):
        transformers.utils.logging.disable_progress_bar()
        try:
            whole = transformers.AutoModelForCausalLM.from_pretrained(model,
                                                                      dtype=torch.float32).eval()
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(model)
        except (OSError, ValueError) as error:
            raise InputError(f"{model} cannot be read as a model: {error}; name the folder of the "
                             "model that the data set was made with") from error
        self._folder = model
        self._model, self._head = whole.model, whole.lm_head
        ends = whole.generation_config.eos_token_id
        self._ends = ends if isinstance(ends, list) else [ends]
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
    def check(self, frame: Frame, states: np.ndarray):
        """These states must say of EOS what was recorded."""
        off = []
        for number in range(min(CHECKED_ANSWERS, len(frame.answers))):
            own = states[frame.starts[number]:frame.starts[number + 1]].astype(np.float32)
            said = torch.log_softmax(self._head(torch.from_numpy(own)), dim=-1)
            said = torch.logsumexp(said[:, self._ends], dim=-1).numpy()
            off.append(np.abs(said - frame.answers[number].figures[:-1, 0]))
        median = float(np.nanmedian(np.concatenate(off)))
        if not median <= LOGPROB_OFF_MAX:
            raise InputError(
                f"log P(EOS) of the model in {self._folder} is off by {median:.2f} in the median "
                f"row, expected at most {LOGPROB_OFF_MAX}; name the folder of the model that was "
                "recorded")

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
