"""When a call is sent again, and after how long."""

from __future__ import annotations

import dataclasses
import math
import random
import time

from baton_client._errors import BatonError

# What gRPC itself says when a connection breaks under a call, or the call crosses a shutdown.
_OF_THE_CONNECTION = ("CANCELLED", "UNKNOWN", "INTERNAL")


@dataclasses.dataclass(frozen=True)
class Retry:
    """How failed calls are repeated; docs/clients.md says why. `Retry(limit_s=0)` repeats none."""

    # No call begins later than so many seconds after the first failure since something new came.
    limit_s: float = 180.0
    # The wait doubles with each such failure, from the one to the other, times a random number from 0.5 to 1.
    first_wait_s: float = 0.1
    longest_wait_s: float = 2.0


def checked_timeout(seconds: float) -> float:
    if not isinstance(seconds, (int, float)) or not 0 < seconds < math.inf:
        raise ValueError(f"timeout_s is {seconds!r}: expected a number of seconds above 0")
    return seconds


def may_help(error: BatonError) -> bool:
    """Whether sending the same request again can help."""
    if error.code == "UNAVAILABLE" or error.retry_after_s is not None:
        return True
    return not error.reason and error.code in _OF_THE_CONNECTION


class Tries:
    """The calls of one request: how many there were, how long the next may take."""

    def __init__(self, retry: Retry, timeout_s: float) -> None:
        self._retry, self._timeout_s = retry, timeout_s
        self._ends: float | None = None  # From the first call on: an answer may be read long after it was asked for.
        self._failures = 0  # Since something new came.
        self._failing_since = 0.0
        self.calls = 0

    def begin(self) -> float:
        """Counts a call; returns the seconds that are left for it."""
        now = time.monotonic()
        if self._ends is None:
            self._ends = now + self._timeout_s
        self.calls += 1
        return max(0.0, self._ends - now)

    def progressed(self) -> None:
        """Something new came, so what fails now is another failure than before."""
        self._failures = 0

    def wait_after(self, error: BatonError) -> float | None:
        """Seconds to wait before the next call, or None if there is to be none."""
        if not may_help(error):
            return None
        now = time.monotonic()
        if self._failures == 0:
            self._failing_since = now
        self._failures += 1
        wait_s = self._retry.longest_wait_s
        if self._failures < 32:
            wait_s = min(wait_s, self._retry.first_wait_s * 2 ** (self._failures - 1))
        wait_s = max(error.retry_after_s or 0.0, wait_s * random.uniform(0.5, 1.0))
        too_late = now + wait_s > self._failing_since + self._retry.limit_s
        return None if too_late or (self._ends is not None and now + wait_s >= self._ends) else wait_s
