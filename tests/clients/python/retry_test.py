"""Repeated calls, against a router that fails as it is told."""

import asyncio
import os
import pathlib
import sys
import threading
import time
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from services import Fake  # noqa: E402

from baton_client import AsyncClient, BatonError, Client, Retry  # noqa: E402

FULL = {"code": "RESOURCE_EXHAUSTED", "reason": "QUEUE_FULL", "retry_after_s": 0.3}


def ask(address, asynchronous, retry=Retry(), **options):
    """The completion of "x", by either client."""
    if not asynchronous:
        with Client(address, retry=retry) as client:
            return client.generate("x", **options).read()

    async def run():
        async with AsyncClient(address, retry=retry) as client:
            return await client.generate("x", **options).read()
    return asyncio.run(run())


class RetryTest(unittest.TestCase):
    @staticmethod
    def both(*steps):
        """A fake for each of the two clients."""
        for asynchronous in (False, True):
            with Fake(*steps) as fake:
                yield fake, asynchronous

    def test_waits_as_long_as_the_server_asks(self):
        for fake, asynchronous in self.both(FULL, {"tokens": 3}):
            answer = ask(fake.address, asynchronous)
            self.assertEqual((answer.text, answer.final.calls), (" w0 w1 w2", 2))
            first, second = fake.call(), fake.call()
            self.assertGreaterEqual(second["at"] - first["at"], 0.3)

    def test_goes_on_where_the_stream_broke_with_the_same_seed(self):
        for fake, asynchronous in self.both({"tokens": 3, "code": "UNAVAILABLE"},
                                            {"tokens": 2, "code": "CANCELLED"}, {"tokens": 5}):
            answer = ask(fake.address, asynchronous, request_id="mine", eos_steps=True, predict=True)
            self.assertEqual(answer.text, " w0 w1 w2 w3 w4")
            self.assertEqual(answer.token_ids, (100, 101, 102, 103, 104))
            self.assertEqual([step.step for step in answer.eos_steps], [1, 2, 3, 4, 5])
            self.assertEqual([p.at_step for p in answer.predictions], [1, 2, 3, 4, 5])
            requests = [fake.call()["request"]["spec"] for _ in range(3)]
            self.assertEqual([spec.get("request_id", "") for spec in requests], ["mine", "", ""])
            self.assertEqual([spec["sampling"].get("seed") for spec in requests], [None, "77", "77"])

    def test_each_of_several_answers_goes_on_where_it_was(self):
        for fake, asynchronous in self.both({"tokens": 2, "code": "UNAVAILABLE"},
                                            {"tokens": 3, "ended": [1], "code": "UNAVAILABLE"}, {"tokens": 3}):
            answer = ask(fake.address, asynchronous, n=2, predict=True, eos_steps=True)
            self.assertEqual((answer.text, answer.token_ids), (" w0 w1 w2", (100, 101, 102)))
            self.assertEqual([p.at_step for p in answer.predictions], [1, 2, 3])
            other, = answer.further
            self.assertEqual((other.text, other.token_ids), (" w0 w1 w2", (1100, 1101, 1102)))
            self.assertEqual([step.step for step in other.eos_steps], [1, 2, 3])
            self.assertEqual((answer.final.calls, other.final.index, other.final.calls), (3, 1, 2))
            # The last Final of a call has it, also where that answer had ended in another call.
            self.assertEqual(other.final.total_usage.completion_tokens, 6)

    def test_other_tokens_than_before_are_an_error(self):
        for fake, asynchronous in self.both({"tokens": 3, "code": "UNAVAILABLE"}, {"tokens": 5, "shift": 1}):
            with self.assertRaises(BatonError) as caught:
                ask(fake.address, asynchronous)
            self.assertEqual(caught.exception.code, "ABORTED")

    def test_what_is_at_fault_is_not_repeated(self):
        for step in ({"code": "INVALID_ARGUMENT", "reason": "TOO_LONG"},
                     {"code": "INTERNAL", "reason": "REQUEST_KILLED_WORKERS"},
                     {"code": "RESOURCE_EXHAUSTED", "reason": "SLOW_CLIENT"}):
            for fake, asynchronous in self.both(step, {"tokens": 1}):
                with self.assertRaises(BatonError) as caught:
                    ask(fake.address, asynchronous)
                self.assertEqual((caught.exception.code, caught.exception.reason), (step["code"], step["reason"]))

    def test_the_limit_ends_it(self):
        with Fake(FULL) as fake, Client(fake.address, retry=Retry(limit_s=0)) as client:
            with self.assertRaises(BatonError) as caught:
                client.generate("x").read()
            self.assertEqual(caught.exception.retry_after_s, 0.3)

    def test_an_answer_that_was_long_on_its_way_is_repeated_as_well(self):
        # Broken three times, each time later than the limit after it began, and each time further on.
        for fake, asynchronous in self.both(*({"tokens": tokens, "pause_s": 0.3, "code": "UNAVAILABLE"}
                                              for tokens in (1, 2, 3)), {"tokens": 4}):
            answer = ask(fake.address, asynchronous, retry=Retry(limit_s=0.2))
            self.assertEqual((answer.text, answer.final.calls), (" w0 w1 w2 w3", 4))

    def test_the_limit_counts_from_the_first_of_the_failures_that_bring_nothing(self):
        for fake, asynchronous in self.both({"tokens": 1, "code": "UNAVAILABLE"}):
            with self.assertRaises(BatonError) as caught:
                ask(fake.address, asynchronous, retry=Retry(limit_s=0.3), timeout_s=60)
            self.assertEqual(caught.exception.code, "UNAVAILABLE")

    def test_time_counts_from_the_first_call(self):
        with Fake({"tokens": 2}) as fake, Client(fake.address, timeout_s=0.5) as client:
            asked = client.generate("x")
            time.sleep(0.6)
            self.assertEqual(asked.read().text, " w0 w1")

    def test_a_wait_beyond_the_deadline_is_not_begun(self):
        for fake, asynchronous in self.both(dict(FULL, retry_after_s=900)):
            with self.assertRaises(BatonError) as caught:
                ask(fake.address, asynchronous, timeout_s=30)
            self.assertEqual(caught.exception.reason, "QUEUE_FULL")

    def test_the_deadline_ends_silence(self):
        for fake, asynchronous in self.both({"hang": True}):
            with self.assertRaises(BatonError) as caught:
                ask(fake.address, asynchronous, timeout_s=0.2)
            self.assertEqual(caught.exception.code, "DEADLINE_EXCEEDED")

    def test_key_and_tenant_go_with_each_call(self):
        with Fake(FULL, {"tokens": 1}) as fake, Client(fake.address, api_key="k1", tenant="red") as client:
            client.generate("x").read()
            for _ in range(2):
                metadata = fake.call()["metadata"]
                self.assertEqual((metadata["authorization"], metadata["baton-tenant"]), ("Bearer k1", "red"))

    def test_a_proxy_of_the_environment_is_not_asked(self):
        # Nobody listens there.
        nowhere = {"http_proxy": "http://127.0.0.1:1", "grpc_proxy": "http://127.0.0.1:1"}
        nobody = {"no_proxy": "", "no_grpc_proxy": ""}
        for fake, asynchronous in self.both({"tokens": 2}):
            with unittest.mock.patch.dict(os.environ, {**nowhere, **nobody}):
                self.assertEqual(ask(fake.address, asynchronous, retry=Retry(limit_s=0)).text, " w0 w1")

    def test_closing_the_client_is_told_to_whoever_reads(self):
        with Fake({"hang": True}) as fake, Client(fake.address) as client:
            threading.Timer(0.2, client.close).start()
            with self.assertRaisesRegex(RuntimeError, "closed"):
                client.generate("x").read()

        async def reading(client):
            await client.generate("x").read()

        async def run(address):
            client = AsyncClient(address)
            task = asyncio.create_task(reading(client))
            await asyncio.sleep(0.2)
            await client.close()
            await asyncio.wait([task])
            self.assertFalse(task.cancelled(), "nobody cancelled the task")
            with self.assertRaisesRegex(RuntimeError, "closed"):
                task.result()

        with Fake({"hang": True}) as fake:
            asyncio.run(run(fake.address))

    def test_cancelling_a_task_is_no_failure(self):
        async def run(fake):
            async with AsyncClient(fake.address) as client:
                task = asyncio.create_task(client.generate("x").read())
                await asyncio.to_thread(fake.call)
                task.cancel()
                await asyncio.wait([task])
                self.assertTrue(task.cancelled())

        with Fake({"hang": True}) as fake:
            asyncio.run(run(fake))


if __name__ == "__main__":
    unittest.main()
