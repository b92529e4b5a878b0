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


class Progress:
    """What came so far, so that a repeated call hands out only what is new.

    A repeated call begins at the first token. With the seed of the first one it gives the same tokens and the
    same text, of which as many are left out as were handed out. Knows nothing of threads or connections.
    """

    def __init__(self, request: Request, retry: Retry, timeout_s: float) -> None:
        self.request = request
        self.tries = Tries(retry, timeout_s)
        self.started: Started | None = None
        self.final: Final | None = None
        self._characters = 0  # Handed out.
        self._ids: list[int] = []
        self._predicted = 0  # The step of the last prediction that was handed out.
        self._skip_characters = 0  # Of this call, still to come and to be left out.
        self._call_ids = 0  # Of this call, come so far.

    def begin(self) -> float:
        """A call begins; returns the seconds that it may take."""
        left_s = self.tries.begin()
        if self.tries.calls > 1:
            # The broken call may still be in flight, and names in flight differ.
            self.request.spec.request_id = ""
            if self.started is not None:
                self.request.spec.sampling.seed = self.started.seed
        self._skip_characters = self._characters
        self._call_ids = 0
        return left_s

    def accept(self, event: Event) -> Piece | None:
        """What is new in a message of the current call."""
        kind = event.WhichOneof("event")
        if kind == "started":
            self.started = _convert.started_of(event.started)
        elif kind == "delta":
            return self._new_of(_convert.piece_of(event.delta))
        elif kind == "prediction" and event.prediction.at_step > self._predicted:
            self._predicted = event.prediction.at_step
            return Piece("", prediction=_convert.prediction_of(event.prediction))
        elif kind == "final":
            self.final = _convert.final_of(event.final, self.tries.calls)
        return None

    def _new_of(self, piece: Piece) -> Piece | None:
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
        self.tries.progressed()
        return dataclasses.replace(
            piece, text=text, token_ids=piece.token_ids[len(known):],
            logprobs=piece.logprobs[len(known):], eos_steps=piece.eos_steps[len(known):])


class Gathered:
    """Pieces put together again."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._ids: list[int] = []
        self._logprobs: list[Logprobs] = []
        self._eos_steps: list[EosStep] = []
        self._predictions: list[Prediction] = []

    def add(self, piece: Piece) -> None:
        self._texts.append(piece.text)
        self._ids.extend(piece.token_ids)
        self._logprobs.extend(piece.logprobs)
        self._eos_steps.extend(piece.eos_steps)
        if piece.prediction is not None:
            self._predictions.append(piece.prediction)

    def whole(self, started: Started | None, final: Final | None) -> Completion:
        if started is None or final is None:
            raise RuntimeError("the answer was closed before its end")
        return Completion("".join(self._texts), tuple(self._ids), tuple(self._logprobs),
                          tuple(self._eos_steps), tuple(self._predictions), started, final)
