"""Repeated calls, against a router that fails as it is told."""

import asyncio
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from services import Fake  # noqa: E402

from baton_client import AsyncClient, BatonError, Client, Retry  # noqa: E402

FULL = {"code": "RESOURCE_EXHAUSTED", "reason": "QUEUE_FULL", "retry_after_s": 0.3}


def ask(address, asynchronous, **options):
    """The completion of "x", by either client."""
    if not asynchronous:
        with Client(address) as client:
            return client.generate("x", **options).read()

    async def run():
        async with AsyncClient(address) as client:
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


if __name__ == "__main__":
    unittest.main()
