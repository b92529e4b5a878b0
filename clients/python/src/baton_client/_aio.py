"""The client for programs that use asyncio."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from baton_client import _channel, _convert, _errors
from baton_client._channel import Tls
from baton_client._client import CLOSED
from baton_client._progress import Event, Gathered, Progress
from baton_client._retry import Retry, Tries, checked_timeout
from baton_client._stubs import inference_pb2 as pb
from baton_client._stubs import model_pb2
from baton_client._stubs.inference_pb2_grpc import InferenceServiceStub
from baton_client._stubs.model_pb2_grpc import ModelServiceStub
from baton_client._types import Completion, Final, Message, ModelInfo, Options, Piece, Started

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack


class AsyncAnswer(AsyncIterator[Piece]):
    """As Answer, with `async for`. A task that is cancelled while it waits for a piece ends the request."""

    def __init__(self, progress: Progress, call: Callable[[float], Any], is_closed: Callable[[], bool]) -> None:
        self._progress = progress
        self._open = call
        self._client_is_closed = is_closed
        self._call: Any = None
        self._closed = asyncio.Event()

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

    async def __anext__(self) -> Piece:
        while self.final is None and not self._closed.is_set():
            try:
                piece = self._progress.accept(await self._next_event())
            except grpc.aio.AioRpcError as error:
                self._call = None
                if not self._closed.is_set():
                    await self._wait_after(_from_call(error))
            except asyncio.CancelledError:
                # This task's, unless another one closed the answer or the client: then only the call was cancelled.
                closed = self._closed.is_set()
                self._cancel()
                if _is_cancelled() or not (closed or self._client_is_closed()):
                    raise
                if not closed:
                    raise RuntimeError(CLOSED) from None
            except BaseException:
                self._cancel()
                raise
            else:
                if piece is not None:
                    return piece
        raise StopAsyncIteration

    async def _next_event(self) -> Event:
        if self._call is None:
            self._call = self._open(self._progress.begin())
        event = await self._call.read()
        if event is grpc.aio.EOF:  # type: ignore[attr-defined]
            self._call = None
            # A call without an error has a Final; somebody on the way swallowed it.
            await self._wait_after(_errors.BatonError("INTERNAL", "the stream ended without a Final"))
            return pb.GenerateResponse()
        answer: Event = event
        return answer

    async def _wait_after(self, error: _errors.BatonError) -> None:
        wait_s = self._progress.tries.wait_after(error)
        if wait_s is None:
            self._closed.set()
            raise error
        try:
            await asyncio.wait_for(self._closed.wait(), wait_s)
        except asyncio.TimeoutError:
            pass

    async def read(self) -> Completion:
        """All that is still to come, in one piece."""
        gathered = Gathered()
        async for piece in self:
            gathered.add(piece)
        return gathered.whole(self._progress)

    async def aclose(self) -> None:
        """Ends the request, wherever it is. Does nothing to an answer that has ended."""
        self._cancel()

    def _cancel(self) -> None:
        self._closed.set()
        if self._call is not None:
            self._call.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        await self.aclose()


class AsyncClient:
    """As Client, for one event loop: that in which its first call is made."""

    def __init__(self, address: str, *, tls: Tls | None = None, api_key: str | None = None,
                 tenant: str | None = None, retry: Retry = Retry(), timeout_s: float = 600.0) -> None:
        self._address, self._tls = address, tls
        self._credentials = tls.credentials() if tls else None
        self._metadata = tuple(_channel.metadata_of(api_key, tenant))
        self._retry, self._timeout_s = retry, checked_timeout(timeout_s)
        self._closed = False
        # A channel belongs to the loop in which it is made.
        self._channel: grpc.aio.Channel | None = None
        # A channel that closes leaves those running whose request is sent: it looks at its own tasks alone.
        self._streams: weakref.WeakSet[Any] = weakref.WeakSet()

    def generate(self, prompt: str | Sequence[int], **options: Unpack[Options]) -> AsyncAnswer:
        """As Client.generate."""
        request = _convert.generate_request(prompt, options)
        return self._answer("Generate", request, options)

    def chat(self, messages: Sequence[Message], **options: Unpack[Options]) -> AsyncAnswer:
        """As Client.chat."""
        request = _convert.chat_request(messages, options)
        return self._answer("ChatGenerate", request, options)

    async def tokenize(self, text: str, *, model: str = "", add_special_tokens: bool = True) -> list[int]:
        """As Client.tokenize."""
        request = _convert.tokenize_request(text, model, add_special_tokens)
        return list((await self._unary(self._inference().Tokenize, request)).token_ids)

    async def detokenize(self, ids: Sequence[int], *, model: str = "",
                         skip_special_tokens: bool = True) -> str:
        """As Client.detokenize."""
        request = _convert.detokenize_request(ids, model, skip_special_tokens)
        text: str = (await self._unary(self._inference().Detokenize, request)).text
        return text

    async def models(self) -> list[str]:
        """As Client.models."""
        method = ModelServiceStub(self._open()).ListModels
        return list((await self._unary(method, model_pb2.ListModelsRequest())).names)

    async def model_info(self, model: str = "") -> ModelInfo:
        """As Client.model_info."""
        method = ModelServiceStub(self._open()).GetModelInfo
        request = model_pb2.GetModelInfoRequest(model=model)
        return _convert.model_info_of(await self._unary(method, request))

    async def close(self) -> None:
        """Ends all that is still running."""
        self._closed = True
        for stream in tuple(self._streams):
            stream.cancel()
        if self._channel is not None:
            await self._channel.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        await self.close()

    def _open(self) -> grpc.aio.Channel:
        if self._closed:
            raise RuntimeError(CLOSED)
        if self._channel is None:
            options = _channel.channel_options(self._tls)
            self._channel = (grpc.aio.secure_channel(self._address, self._credentials, options)
                             if self._credentials else grpc.aio.insecure_channel(self._address, options))
        return self._channel

    def _inference(self) -> Any:
        return InferenceServiceStub(self._open())

    def _answer(self, method: str, request: Any, options: Options) -> AsyncAnswer:
        if self._closed:
            raise RuntimeError(CLOSED)

        def call(left_s: float) -> Any:
            stream = getattr(self._inference(), method)(request, timeout=left_s, metadata=self._metadata)
            self._streams.add(stream)
            return stream

        given_s = options.get("timeout_s")
        timeout_s = self._timeout_s if given_s is None else checked_timeout(given_s)
        return AsyncAnswer(Progress(request, self._retry, timeout_s), call, lambda: self._closed)

    async def _unary(self, method: Callable[..., Any], request: Any) -> Any:
        tries = Tries(self._retry, self._timeout_s)
        while True:
            if self._closed:
                raise RuntimeError(CLOSED)
            try:
                return await method(request, timeout=tries.begin(), metadata=self._metadata)
            except asyncio.CancelledError:
                if self._closed and not _is_cancelled():
                    raise RuntimeError(CLOSED) from None
                raise
            except grpc.aio.AioRpcError as rpc_error:
                error = _from_call(rpc_error)
                wait_s = tries.wait_after(error)
                if wait_s is None:
                    raise error from None
                await asyncio.sleep(wait_s)


def _is_cancelled() -> bool:
    """Whether somebody cancelled the running task. Python 3.10 cannot tell; there it counts as not."""
    cancelling = getattr(asyncio.current_task(), "cancelling", None)
    return cancelling is not None and cancelling() > 0


def _from_call(error: Any) -> _errors.BatonError:
    return _errors.from_rpc(error.code(), error.details(), error.trailing_metadata())
