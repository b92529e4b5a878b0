"""Values that go into the Python package and come out of it."""

import copy
import json
import pathlib
import pickle
import sys
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from services import Fake  # noqa: E402

from baton_client import AsyncClient, BatonError, Client  # noqa: E402


class NamedError(BatonError):
    """A program's own, which it makes in another way."""

    def __init__(self, name):
        super().__init__("NOT_FOUND", f"no {name}")
        self.name = name


class ErrorTest(unittest.TestCase):
    @staticmethod
    def copies(error):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            yield pickle.loads(pickle.dumps(error, protocol))
        yield copy.copy(error)
        yield copy.deepcopy(error)

    def test_an_error_goes_to_other_processes_whole(self):
        error = BatonError("RESOURCE_EXHAUSTED", "the queue is full", "QUEUE_FULL", "spec.stop", 0.5, {"limit": "8"})
        for other in self.copies(error):
            self.assertIs(type(other), BatonError)
            self.assertEqual((str(other), vars(other)), (str(error), vars(error)))

    def test_so_does_one_of_a_class_of_its_own(self):
        for other in self.copies(NamedError("fox")):
            self.assertIs(type(other), NamedError)
            self.assertEqual((str(other), other.code, other.name), ("NOT_FOUND: no fox", "NOT_FOUND", "fox"))


class FinalTest(unittest.TestCase):
    def test_what_a_newer_router_names_otherwise_ends_an_answer_all_the_same(self):
        with Fake({"tokens": 1, "finish_reason": 101, "stop_cause": 102}) as fake, Client(fake.address) as client:
            final = client.generate("x").read().final
        self.assertEqual((final.finish_reason, final.stop_cause), ("unknown_101", "unknown_102"))


class PromptTest(unittest.TestCase):
    def test_bytes_are_neither_a_text_nor_token_ids(self):
        async_client = AsyncClient("127.0.0.1:1")
        with Client("127.0.0.1:1") as client:
            for prompt in (b"text", bytearray(b"text")):
                for take in (client.generate, async_client.generate, client.detokenize):
                    with self.assertRaisesRegex(TypeError, "expected .*decode"):
                        take(prompt)


class OptionTest(unittest.TestCase):
    def test_what_a_header_does_not_take_is_said_at_once(self):
        for make in (Client, AsyncClient):
            for name, value in (("api_key", "secret\n"), ("api_key", ""), ("api_key", "a b"), ("tenant", "t\u00e9am")):
                with self.assertRaisesRegex(ValueError, f"{name}.*expected visible ASCII"):
                    make("127.0.0.1:1", **{name: value})

    def test_a_timeout_is_a_number_of_seconds(self):
        for make in (Client, AsyncClient):
            for timeout_s in (None, 0, -1, float("inf"), float("nan"), "9"):
                with self.assertRaisesRegex(ValueError, "timeout_s is .*expected"):
                    make("127.0.0.1:1", timeout_s=timeout_s)
        with Client("127.0.0.1:1") as client:
            with self.assertRaisesRegex(ValueError, "timeout_s is -1"):
                client.generate("x", timeout_s=-1)
        # None is an option that was left out, as everywhere.
        with Fake({"tokens": 1}) as fake, Client(fake.address) as client:
            self.assertEqual(client.generate("x", timeout_s=None).read().text, " w0")

    def test_a_text_is_no_list_of_choices(self):
        with Client("127.0.0.1:1") as client, self.assertRaisesRegex(TypeError, "guided_choice is 'yes'"):
            client.generate("x", guided_choice="yes")

    def test_a_schema_may_be_of_any_mappings(self):
        schema = types.MappingProxyType({"type": "object", "properties": types.MappingProxyType({"a": {}})})
        with Fake({"tokens": 1}) as fake, Client(fake.address) as client:
            client.generate("x", guided_json=schema).read()
            sent = fake.call()["request"]["spec"]["guided_json"]
        self.assertEqual(json.loads(sent), {"type": "object", "properties": {"a": {}}})
        with Client("127.0.0.1:1") as client, self.assertRaisesRegex(TypeError, "guided_json has a set"):
            client.generate("x", guided_json={"enum": {1}})


if __name__ == "__main__":
    unittest.main()
