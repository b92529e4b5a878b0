"""How a client tries again, as docs/clients.md says it."""

import grpc

import client

FIRST_WAIT_S, LONGEST_WAIT_S = 0.1, 2.0
# What gRPC itself says when a connection breaks under a call or the server is going.
_OF_THE_CONNECTION = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED,
                      grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL)


def details_of(error):
    """(reason, seconds of RetryInfo or None) of a failed call."""
    reason, wait_s = "", None
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            for detail in client.message("google.rpc.Status").FromString(value).details:
                kind = detail.type_url.rpartition("/")[2]
                if kind == "google.rpc.ErrorInfo":
                    reason = client.message(kind).FromString(detail.value).reason
                elif kind == "google.rpc.RetryInfo":
                    delay = client.message(kind).FromString(detail.value).retry_delay
                    wait_s = delay.seconds + delay.nanos / 1e9
    return reason, wait_s


def may_retry(code, reason, wait_s):
    """Whether sending the request again can help."""
    if code == grpc.StatusCode.UNAVAILABLE or wait_s is not None:
        return True
    return not reason and code in _OF_THE_CONNECTION


def wait_before(tries, wait_s, rng):
    """Seconds to wait after `tries` failures: what the server asks for, or more and more."""
    back_off = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** (tries - 1))
    return max(wait_s or 0, back_off * rng.uniform(0.5, 1))
