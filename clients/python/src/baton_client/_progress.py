"""One answer over all the calls that it takes."""

from __future__ import annotations

import dataclasses

from baton_client import _convert
from baton_client._errors import BatonError
from baton_client._retry import Retry, Tries
from baton_client._stubs import inference_pb2 as pb
from baton_client._types import Completion, EosStep, Final, Logprobs, Piece, Prediction, Started

Request = pb.GenerateRequest | pb.ChatGenerateRequest
Event = pb.GenerateResponse | pb.ChatGenerateResponse


class _AnswerProgress:
    """What came so far of one answer."""

    def __init__(self) -> None:
        self.final: Final | None = None
        self.ended = False  # In this call.
        self._characters = 0  # Handed out.
        self._ids: list[int] = []
        self._predicted = 0  # The step of the last prediction that was handed out.
        self._skip_characters = 0  # Of this call, still to come and to be left out.
        self._call_ids = 0  # Of this call, come so far.

    def begin_call(self) -> None:
        self.ended = False
        self._skip_characters = self._characters
        self._call_ids = 0

    def end(self, final: Final) -> None:
        """The Final of a call came. That of the first call to bring one stays, with what only the last to end knows."""
        self.ended = True
        if self.final is None:
            self.final = final
        elif final.total_usage is not None:
            self.final = dataclasses.replace(self.final, total_usage=final.total_usage)

    def is_new(self, prediction: pb.EndPrediction) -> bool:
        new = prediction.at_step > self._predicted
        self._predicted = max(self._predicted, prediction.at_step)
        return new

    def new_of(self, piece: Piece) -> Piece | None:
        known = self._ids[self._call_ids:self._call_ids + len(piece.token_ids)]
        if list(piece.token_ids[:len(known)]) != known:
            raise BatonError("ABORTED", "the repeated call gave other tokens than the one that broke, so the rest "
                             "does not fit what came; is the same model served everywhere?")
        self._call_ids += len(piece.token_ids)
        self._ids.extend(piece.token_ids[len(known):])
        text = piece.text[self._skip_characters:]
        self._skip_characters -= len(piece.text) - len(text)
        self._characters += len(text)
        if not text and len(known) == len(piece.token_ids):
            return None
        return dataclasses.replace(
            piece, text=text, token_ids=piece.token_ids[len(known):],
            logprobs=piece.logprobs[len(known):], eos_steps=piece.eos_steps[len(known):])


class Progress:
    """What came so far, so that a repeated call hands out only what is new.

    A repeated call begins at the first token. With the seed of the first one it gives the same tokens and the
    same text, of each answer if there are several, and of each as many are left out as were handed out. Knows
    nothing of threads or connections.
    """

    def __init__(self, request: Request, retry: Retry, timeout_s: float) -> None:
        self.request = request
        self.tries = Tries(retry, timeout_s)
        self.started: Started | None = None
        self._count = max(1, request.spec.sampling.n)  # Of the answers.
        self._answers: dict[int, _AnswerProgress] = {}  # By index; those of which something came.

    @property
    def final(self) -> Final | None:
        """That of the first answer, once all have ended in one call, the last of which tells the usage of all."""
        ended = sum(answer.ended for answer in self._answers.values())
        return self.finals[0] if ended == self._count else None

    @property
    def finals(self) -> tuple[Final, ...]:
        """Those of the answers that have ended, by their index."""
        by_index = sorted(self._answers.items())
        return tuple(answer.final for _, answer in by_index if answer.final is not None)

    def begin(self) -> float:
        """A call begins; returns the seconds that it may take."""
        left_s = self.tries.begin()
        if self.tries.calls > 1:
            # The broken call may still be in flight, and names in flight differ.
            self.request.spec.request_id = ""
            if self.started is not None:
                self.request.spec.sampling.seed = self.started.seed
        for answer in self._answers.values():
            answer.begin_call()
        return left_s

    def _answer(self, index: int) -> _AnswerProgress:
        return self._answers.setdefault(index, _AnswerProgress())

    def accept(self, event: Event) -> Piece | None:
        """What is new in a message of the current call."""
        kind = event.WhichOneof("event")
        if kind == "started":
            self.started = _convert.started_of(event.started)
        elif kind == "delta":
            piece = self._answer(event.delta.index).new_of(_convert.piece_of(event.delta))
            if piece is not None:
                self.tries.progressed()
            return piece
        elif kind == "prediction" and self._answer(event.prediction.index).is_new(event.prediction):
            return Piece("", prediction=_convert.prediction_of(event.prediction), index=event.prediction.index)
        elif kind == "final":
            self._answer(event.final.index).end(_convert.final_of(event.final, self.tries.calls))
        return None


class _Gathering:
    """The pieces of one answer."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.ids: list[int] = []
        self.logprobs: list[Logprobs] = []
        self.eos_steps: list[EosStep] = []
        self.predictions: list[Prediction] = []

    def whole(self, started: Started, final: Final, further: tuple[Completion, ...]) -> Completion:
        return Completion("".join(self.texts), tuple(self.ids), tuple(self.logprobs), tuple(self.eos_steps),
                          tuple(self.predictions), started, final, further)


class Gathered:
    """Pieces put together again."""

    def __init__(self) -> None:
        self._answers: dict[int, _Gathering] = {}

    def add(self, piece: Piece) -> None:
        answer = self._answers.setdefault(piece.index, _Gathering())
        answer.texts.append(piece.text)
        answer.ids.extend(piece.token_ids)
        answer.logprobs.extend(piece.logprobs)
        answer.eos_steps.extend(piece.eos_steps)
        if piece.prediction is not None:
            answer.predictions.append(piece.prediction)

    def whole(self, progress: Progress) -> Completion:
        if progress.started is None or progress.final is None:
            raise RuntimeError("the answer was closed before its end")
        started = progress.started
        further = tuple(self._of(final.index).whole(started, final, ()) for final in progress.finals[1:])
        return self._of(0).whole(started, progress.final, further)

    def _of(self, index: int) -> _Gathering:
        return self._answers.get(index, _Gathering())
