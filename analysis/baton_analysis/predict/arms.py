"""How answers are grouped where models are judged: by arm of the data set and by family."""

import numpy as np

from baton_analysis.predict.dataset import Answer
from baton_analysis.predict.frame import Frame

UNCERTAIN = ("story", "answer")  # families whose answers may end after any sentence
RUNAWAY = "endless"  # does not end by itself on purpose
BOTH, DETERMINED, ALL = "story + answer", "determined", "all"


def arm_of(answer: Answer, most_tokens: dict[str, int]) -> str:
    """Temperature, top-p where it is on, and whether max_tokens was made small."""
    name = f"T {answer.temperature:g}"
    if answer.top_p != 1:
        name += f", top-p {answer.top_p:g}"
    if answer.max_tokens < most_tokens[answer.family]:
        name += ", cut"
    return name


def most_tokens(answers: list[Answer]) -> dict[str, int]:
    """Of each family the largest max_tokens; answers with smaller ones are those that were cut."""
    most = {}
    for answer in answers:
        most[answer.family] = max(most.get(answer.family, 0), answer.max_tokens)
    return most


class Groups:
    """Rows of a frame by (arm, family), pooled families among them."""

    def __init__(self, frame: Frame):
        most = most_tokens(frame.answers)
        self._arms = np.array([arm_of(answer, most) for answer in frame.answers])
        self._families = np.array(frame.families)
        self._answer_of = frame.answer_of
        self.arms = sorted(set(self._arms))

    def families(self, arm: str) -> list[str]:
        """Those of an arm, the uncertain ones first, and what is pooled of them."""
        there = set(self._families[self._arms == arm])
        found = [name for name in UNCERTAIN if name in there]
        if len(found) == len(UNCERTAIN):
            found.append(BOTH)
        others = sorted(there - {*UNCERTAIN, RUNAWAY})
        found += others
        if len(others) > 1:
            found.append(DETERMINED)
        return [*found, *(there & {RUNAWAY}), ALL]

    def rows(self, arm: str, family: str) -> np.ndarray:
        own = self._arms == arm
        if family == BOTH:
            own &= np.isin(self._families, UNCERTAIN)
        elif family == DETERMINED:
            own &= ~np.isin(self._families, (*UNCERTAIN, RUNAWAY))
        elif family != ALL:
            own &= self._families == family
        return np.flatnonzero(own[self._answer_of])


def mean_length(frame: Frame, rows: np.ndarray) -> float:
    """Of the answers of these rows."""
    return float(np.mean([frame.answers[n].length for n in np.unique(frame.answer_of[rows])]))


def same_prompt_noise(answers: list[Answer]) -> dict:
    """How well the other seeds of a prompt foretell a length: what no predictor at the start can
    beat. `mae_median`: of the median of all, for comparison."""
    by_prompt = {}
    for answer in answers:
        if answer.natural:
            by_prompt.setdefault(answer.prompt, []).append(answer.length)
    own, others = [], []
    for lengths in by_prompt.values():
        for place, length in enumerate(lengths):
            if len(lengths) > 1:
                own.append(length)
                others.append(np.median(lengths[:place] + lengths[place + 1:]))
    if not own:
        return {}
    own, others = np.array(own, dtype=float), np.array(others)
    return {
        "answers": len(own),
        "mae": float(np.abs(own - others).mean()),
        "mae_median": float(np.abs(own - np.median(own)).mean())
    }
