"""Clients that ask again and again, retry as documented, and compare every answer with the same
request alone."""

import dataclasses
import random
import threading
import time

import grpc

import client
import prompts
import retry

CALL_S = 60        # the deadline of one call
PATIENCE_S = 180   # of a client, over all its calls for one answer
CANCEL_SHARE = 0.05
DEATHS_OF_A_BAD_REQUEST = 3
_CHANNEL = (("grpc.initial_reconnect_backoff_ms", 100), ("grpc.min_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 1000))


class Tally:
    """What all clients counted."""

    def __init__(self):
        self.answers = self.resumed = self.retries = self.cancelled = self.tokens = 0
        self.retried_for = {}
        self.recoveries = []  # seconds without a message, of answers that something struck
        self.finished = {}    # by request id, of answers with a Final


@dataclasses.dataclass
class Finished:
    """An answer with a Final, for who reads the EOS log."""

    tokens: dict   # of which there are rows, by index; None where nobody can say
    address: str   # of the router
    began: float   # the call
    ended: float


class Load:
    """`addresses()` names the routers; `unreached(since)` counts blows to workers that look
    like their death."""

    def __init__(self, requests, answers, addresses, unreached, on_failure):
        self._requests, self._alone = requests, answers
        self._addresses, self._unreached, self._on_failure = addresses, unreached, on_failure
        self._lock = threading.Lock()
        self._go, self._end = threading.Event(), threading.Event()
        self._busy = 0
        self._wires = {}
        self._threads = []
        self.tally = Tally()

    def begin(self, clients, seed):
        for i in range(clients):
            rng = random.Random(f"client {seed} {i}")
            thread = threading.Thread(target=self._client, args=(i, rng), daemon=True)
            self._threads.append(thread)
            thread.start()
        self.resume()

    def resume(self):
        self._go.set()

    def pause(self):
        """Begins no new answer; `busy` says when the last one is there."""
        self._go.clear()

    def busy(self):
        with self._lock:
            return self._busy

    def end(self):
        self._end.set()
        self._go.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)
        for wire in self._wires.values():
            wire.close()

    def _wire(self, address):
        with self._lock:
            if address not in self._wires:
                self._wires[address] = client.Client(address, options=_CHANNEL)
            return self._wires[address]

    def _client(self, index, rng):
        count = 0
        while not self._end.is_set():
            self._go.wait()
            with self._lock:
                if not self._go.is_set() or self._end.is_set():
                    continue
                self._busy += 1
            try:
                count += 1
                self._answer(f"c{index}-{count}", rng)
            except Exception as error:  # pylint: disable=broad-except
                self._on_failure(f"client {index}: {error!r}")
            finally:
                with self._lock:
                    self._busy -= 1

    def _answer(self, name, rng):
        """One answer, over as many calls as it takes."""
        which = rng.randrange(len(self._requests))
        cancel_at = rng.randrange(1, 30) if rng.random() < CANCEL_SHARE else None
        began, longest, tries = time.monotonic(), 0.0, 0
        turn = rng.randrange(2)
        while True:
            addresses = self._addresses()
            address = addresses[(turn + tries) % len(addresses)]
            outcome = self._call(address, which, f"{name}.{tries}", cancel_at)
            longest = max(longest, outcome.longest)
            if outcome.error is None:
                return self._note(outcome, tries, longest, self._requests[which][1])
            tries += 1
            reason, wait_s = retry.details_of(outcome.error)
            code = outcome.error.code()
            if not self._worth_it(code, reason, wait_s, began):
                return self._on_failure(
                    f"request {which}, call {tries}: {code.name} {reason}: "
                    f"{outcome.error.details()}")
            if time.monotonic() - began > PATIENCE_S:
                return self._on_failure(
                    f"request {which}: no answer after {tries} calls in {PATIENCE_S} s; "
                    f"last {code.name} {reason}: {outcome.error.details()}")
            with self._lock:
                self.tally.retries += 1
                key = f"{code.name} {reason or '(' + outcome.error.details()[:60] + ')'}"
                self.tally.retried_for[key] = self.tally.retried_for.get(key, 0) + 1
            wait = retry.wait_before(tries, wait_s, rng)
            longest = max(longest, outcome.silent + wait)
            self._end.wait(wait)

    def _worth_it(self, code, reason, wait_s, began):
        if retry.may_retry(code, reason, wait_s):
            return True
        # Whoever struck the workers knows that the request did not.
        return (reason == "REQUEST_KILLED_WORKERS"
                and self._unreached(began) >= DEATHS_OF_A_BAD_REQUEST)

    def _call(self, address, which, request_id, cancel_at):
        method, request = self._requests[which]
        request = {**request, "spec": {**request["spec"], "requestId": request_id}}
        outcome = _Outcome(request_id, address, prompts.Answer())
        call = prompts.open_call(self._wire(address), method, request, CALL_S)
        try:
            for event in call:
                outcome.heard()
                outcome.answer.add(event)
                if cancel_at is not None and outcome.answer.count() >= cancel_at:
                    outcome.cancelled = True
                    call.cancel()
                    break
        except grpc.RpcError as error:
            outcome.error = error
        outcome.silent = time.monotonic() - outcome.last
        whole = outcome.error is None and not outcome.cancelled
        differs = outcome.answer.differs(self._alone[which], whole)
        if differs:
            self._on_failure(f"request {which} ({request_id}): {differs}")
        if whole and not outcome.answer.ended:
            self._on_failure(f"request {which} ({request_id}): the stream ended OK without a Final")
        return outcome

    def _note(self, outcome, tries, longest, request):
        with self._lock:
            tally = self.tally
            tally.answers += 1
            tally.tokens += outcome.answer.count()
            if outcome.cancelled:
                tally.cancelled += 1
                return
            tally.finished[outcome.request_id] = Finished(
                prompts.in_the_log(request, outcome.answer), outcome.address, outcome.began, time.monotonic())
            resumed = (outcome.answer.attempts or 1) > 1
            tally.resumed += resumed
            if resumed or tries:
                tally.recoveries.append(longest)


class _Outcome:
    """What came of one call."""

    def __init__(self, request_id, address, answer):
        self.request_id, self.address, self.answer = request_id, address, answer
        self.error, self.cancelled = None, False
        self.began = time.monotonic()
        self.last, self.longest, self.silent = self.began, 0.0, 0.0

    def heard(self):
        now = time.monotonic()
        self.longest, self.last = max(self.longest, now - self.last), now
