"""Rows of many answers as one table of features, with what is known of their ends.

The last row of an answer is left out: of a natural end it is the row of the end itself, and one
that knows it tells nothing; of a cut answer nothing is known after it.
"""

import numpy as np

from baton_analysis.predict import features
from baton_analysis.predict.bins import Ends
from baton_analysis.predict.boundaries import LINE
from baton_analysis.predict.dataset import Answer, Dataset
from baton_analysis.predict.evaluators import Inputs
from baton_analysis.predict.reference import Request


class Frame:

    def __init__(self, names, matrix, answers: list[Answer]):
        self.names = tuple(names)
        self.matrix = matrix  # [rows, names], float32
        self.answers = answers
        lengths = np.array([answer.length - 1 for answer in answers], dtype=int)
        self.starts = np.concatenate(([0], np.cumsum(lengths)))
        self.answer_of = np.repeat(np.arange(len(answers)), lengths)  # [rows]
        steps = np.arange(self.starts[-1]) - self.starts[:-1][self.answer_of] + 1
        length = np.array([answer.length for answer in answers], dtype=int)
        natural = np.array([answer.natural for answer in answers], dtype=bool)
        self.steps = steps
        limit = np.array([answer.max_tokens for answer in answers], dtype=int)
        self.ends = Ends(length[self.answer_of] - steps, natural[self.answer_of],
                         limit[self.answer_of] - steps)
        # A number per prompt, of each answer.
        self.prompts = np.unique([answer.prompt for answer in answers], return_inverse=True)[1]
        self.families = [answer.family for answer in answers]

    @property
    def rows(self) -> int:
        return len(self.steps)

    def column(self, name: str) -> np.ndarray:
        return self.matrix[:, self.names.index(name)]

    def select(self, names) -> np.ndarray:
        """[rows, names]"""
        return self.matrix[:, [self.names.index(name) for name in names]]

    def inputs(self) -> Inputs:
        columns = {name: self.matrix[:, place] for place, name in enumerate(self.names)}
        return Inputs(columns | {"step": self.steps.astype(float)}, self.starts, self.families)

    def of_answer(self, values) -> np.ndarray:
        """A value per answer, for each of its rows."""
        return np.array(values)[self.answer_of]


def frame_of(dataset: Dataset, answers: list[Answer], flags: np.ndarray,
             names=features.NAMES) -> Frame:
    answers = [answer for answer in answers if answer.length > 1]
    probe_names = tuple(
        f"{kind}[{i}]" for kind in ("probe", "first_probe") for i in range(dataset.probe_width))
    names = (*names, *probe_names)
    rows = sum(answer.length - 1 for answer in answers)
    matrix = np.empty((rows, len(names)), dtype=np.float32)
    at = 0
    for answer in answers:
        found = columns_of(dataset, answer, flags)
        for place, name in enumerate(names):
            matrix[at:at + answer.length - 1, place] = found[name]
        at += answer.length - 1
    return Frame(names, matrix, answers)


def columns_of(dataset: Dataset, answer: Answer, flags: np.ndarray) -> dict[str, np.ndarray]:
    """The features of all its rows but the last."""
    probe = dataset.probe(answer)
    tokens = answer.tokens[:-1]
    marks = np.where(tokens < len(flags), flags[np.minimum(tokens, len(flags) - 1)], 0)
    signals = features.Signals(answer.figures[:-1], tokens, marks > 0, (marks & LINE) > 0,
                               None if probe is None else probe[:-1])
    return features.columns(
        signals, Request(answer.prompt_length, answer.temperature, answer.top_p, answer.family))
