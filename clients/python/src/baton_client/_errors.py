"""Failed calls as exceptions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]

DETAILS_KEY = "grpc-status-details-bin"


class BatonError(Exception):
    """A call failed for good: the request was refused, or repeating it did not help.

    `code` is gRPC's name, as "INVALID_ARGUMENT". `reason` is Baton's, as "INVALID_SAMPLING", and empty if gRPC
    itself speaks, about the connection. `field` is the path of the field at fault, as "spec.sampling.top_p".
    `retry_after_s` is how long the server asks to wait before the request is sent again. `facts` has further
    words of the server, as {"limit": "1024"}.
    """

    def __init__(self, code: str, message: str, reason: str = "", field: str | None = None,
                 retry_after_s: float | None = None, facts: Mapping[str, str] | None = None) -> None:
        super().__init__(f"{code} {reason}: {message}" if reason else f"{code}: {message}")
        self.code = code
        self.message = message
        self.reason = reason
        self.field = field
        self.retry_after_s = retry_after_s
        self.facts = dict(facts or {})

    def __reduce__(self) -> tuple[Any, ...]:
        # An exception is otherwise copied by calling its class with `args`, which here is the whole text alone.
        return _restored, (type(self), self.args), vars(self)


def _restored(kind: type[BatonError], args: tuple[Any, ...]) -> BatonError:
    """A pickled error without its attributes. Does not call __init__, which a subclass may have of its own."""
    return kind.__new__(kind, *args)


def from_rpc(code: grpc.StatusCode, message: str | None,
             trailers: Iterable[tuple[str, Any]] | None) -> BatonError:
    """The exception of a call that ended with `code`."""
    reason, field, retry_after_s, facts = "", None, None, {}
    for detail in _details(trailers):
        if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
            info = error_details_pb2.ErrorInfo()
            detail.Unpack(info)
            reason, facts = info.reason, dict(info.metadata)
        elif detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR):
            retry = error_details_pb2.RetryInfo()
            detail.Unpack(retry)
            retry_after_s = retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9
        elif detail.Is(error_details_pb2.BadRequest.DESCRIPTOR):
            bad = error_details_pb2.BadRequest()
            detail.Unpack(bad)
            if bad.field_violations:
                field = bad.field_violations[0].field
    return BatonError(code.name, message or "", reason, field, retry_after_s, facts)


def _details(trailers: Iterable[tuple[str, Any]] | None) -> list[Any]:
    for key, value in trailers or ():
        if key == DETAILS_KEY:
            try:
                return list(status_pb2.Status.FromString(value).details)
            except DecodeError:  # A proxy's own; the code still says something.
                return []
    return []
