"""The client for programs with threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import grpc

from baton_client import _channel, _convert, _errors
from baton_client._channel import Tls
from baton_client._progress import Event, Gathered, Progress
from baton_client._retry import Retry, Tries, checked_timeout
from baton_client._stubs import inference_pb2 as pb
from baton_client._stubs import model_pb2
from baton_client._stubs.inference_pb2_grpc import InferenceServiceStub
from baton_client._stubs.model_pb2_grpc import ModelServiceStub
from baton_client._types import Completion, Final, Message, ModelInfo, Options, Piece, Started

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

CLOSED = "the client is closed: make another one"
_T = TypeVar("_T")


class Answer(Iterator[Piece]):
    """The answer to one request: iterate over its pieces. Only one thread may, but any may close it.

    `started` is there from the first piece on, `final` behind the last. Of several answers (`n`) the pieces come
    mixed, each with its `index`; `final` is that of the first, there when all have ended. Leaving a `with` block, or `close()`,
    before that ends the request at the server, too; then the iteration ends and `final` stays None.
    """

    def __init__(self, progress: Progress, call: Callable[[float], Any]) -> None:
        self._progress = progress
        self._open = call
        self._call: Any = None
        self._closed = threading.Event()

    @property
    def started(self) -> Started | None:
        return self._progress.started

    @property
    def final(self) -> Final | None:
        return self._progress.final

    @property
    def finals(self) -> tuple[Final, ...]:
        """Of several answers, the Finals of those that have ended, by their index."""
        return self._progress.finals

    def __next__(self) -> Piece:
        while self.final is None and not self._closed.is_set():
            try:
                piece = self._progress.accept(self._next_event())
            except grpc.RpcError as error:
                self._call = None
                if not self._closed.is_set():
                    self._wait_after(_from_call(error))
            except BaseException:
                self.close()
                raise
            else:
                if piece is not None:
                    return piece
        raise StopIteration

    def _next_event(self) -> Event:
        if self._call is None:
            self._call = self._open(self._progress.begin())
            if self._closed.is_set():  # Since the loop looked: who closed saw no call to cancel.
                self._call.cancel()
        event: Event | None = next(self._call, None)
        if event is None:
            # A call without an error has a Final; somebody on the way swallowed it.
            self._call = None
            error = _errors.BatonError("INTERNAL", "the stream ended without a Final")
            self._wait_after(error)
            return pb.GenerateResponse()
        return event

    def _wait_after(self, error: _errors.BatonError) -> None:
        wait_s = self._progress.tries.wait_after(error)
        if wait_s is None:
            self._closed.set()
            raise error
        self._closed.wait(wait_s)

    def read(self) -> Completion:
        """All that is still to come, in one piece."""
        gathered = Gathered()
        for piece in self:
            gathered.add(piece)
        return gathered.whole(self._progress)

    def close(self) -> None:
        """Ends the request, wherever it is. Does nothing to an answer that has ended."""
        self._closed.set()
        call = self._call  # The thread that iterates may take it away.
        if call is not None:
            call.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()


class Client:
    """A connection to a Baton router, say `Client("127.0.0.1:50051")`. Any number of threads may use one.

    Failed calls are repeated as `retry` says. What fails for good is a BatonError.
    """

    def __init__(self, address: str, *, tls: Tls | None = None, api_key: str | None = None,
                 tenant: str | None = None, retry: Retry = Retry(), timeout_s: float = 600.0) -> None:
        options = _channel.channel_options(tls)
        self._channel = (grpc.secure_channel(address, tls.credentials(), options) if tls
                         else grpc.insecure_channel(address, options))
        self._metadata = _channel.metadata_of(api_key, tenant)
        self._retry, self._timeout_s = retry, checked_timeout(timeout_s)
        self._closed = threading.Event()
        self._inference = InferenceServiceStub(self._channel)
        self._models = ModelServiceStub(self._channel)

    def generate(self, prompt: str | Sequence[int], **options: Unpack[Options]) -> Answer:
        """Goes on from a text, or from token ids, to which nothing is added. The call begins when it is read."""
        request = _convert.generate_request(prompt, options)
        return self._answer(self._inference.Generate, request, options)

    def chat(self, messages: Sequence[Message], **options: Unpack[Options]) -> Answer:
        """Goes on from a conversation, oldest message first, by the model's chat template."""
        request = _convert.chat_request(messages, options)
        return self._answer(self._inference.ChatGenerate, request, options)

    def tokenize(self, text: str, *, model: str = "", add_special_tokens: bool = True) -> list[int]:
        """The ids that `generate` would see of the text."""
        request = _convert.tokenize_request(text, model, add_special_tokens)
        return list(self._unary(self._inference.Tokenize, request).token_ids)

    def detokenize(self, ids: Sequence[int], *, model: str = "", skip_special_tokens: bool = True) -> str:
        """The text of the ids."""
        request = _convert.detokenize_request(ids, model, skip_special_tokens)
        return self._unary(self._inference.Detokenize, request).text

    def models(self) -> list[str]:
        """The names of what is served."""
        return list(self._unary(self._models.ListModels, model_pb2.ListModelsRequest()).names)

    def model_info(self, model: str = "") -> ModelInfo:
        """What is served under a name; without one, the only model."""
        request = model_pb2.GetModelInfoRequest(model=model)
        return _convert.model_info_of(self._unary(self._models.GetModelInfo, request))

    def close(self) -> None:
        """Ends all that is still running."""
        self._closed.set()
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def _answer(self, method: Any, request: Any, options: Options) -> Answer:
        self._check_open()

        def call(left_s: float) -> Any:
            self._check_open()
            return method(request, timeout=left_s, metadata=self._metadata)

        given_s = options.get("timeout_s")
        timeout_s = self._timeout_s if given_s is None else checked_timeout(given_s)
        return Answer(Progress(request, self._retry, timeout_s), call)

    def _unary(self, method: Callable[..., _T], request: Any) -> _T:
        tries = Tries(self._retry, self._timeout_s)
        while True:
            self._check_open()
            try:
                return method(request, timeout=tries.begin(), metadata=self._metadata)
            except grpc.RpcError as rpc_error:
                error = _from_call(rpc_error)
                wait_s = tries.wait_after(error)
                if wait_s is None:
                    raise error from None
                self._closed.wait(wait_s)

    def _check_open(self) -> None:
        if self._closed.is_set():
            raise RuntimeError(CLOSED)


def _from_call(error: Any) -> _errors.BatonError:
    return _errors.from_rpc(error.code(), error.details(), error.trailing_metadata())
