"""A client of the Baton LLM inference service: `Client`, and `AsyncClient` for asyncio."""

from baton_client._aio import AsyncAnswer, AsyncClient
from baton_client._channel import Tls
from baton_client._client import Answer, Client
from baton_client._errors import BatonError
from baton_client._retry import Retry
from baton_client._types import (Completion, EosStep, Final, LengthControl, Logprobs, Message,
                                 ModelInfo, Options, Piece, Prediction, Started, Timings,
                                 TokenLogprob, Usage)

__all__ = [
    "Answer", "AsyncAnswer", "AsyncClient", "BatonError", "Client", "Completion", "EosStep", "Final",
    "LengthControl", "Logprobs", "Message", "ModelInfo", "Options", "Piece", "Prediction", "Retry",
    "Started", "Timings", "Tls", "TokenLogprob", "Usage",
]
