"""The Python package against `baton serve` with the demo model."""

import asyncio
import concurrent.futures
import itertools
import json
import pathlib
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from services import Served, secure_service  # noqa: E402

from baton_client import AsyncClient, BatonError, Client, LengthControl, Retry, Tls  # noqa: E402

STORY = "Once upon a time"
# Runs until somebody ends it, as far as the test goes.
ENDLESS = {"max_tokens": 1900, "eos": "mask"}
TALK = [{"role": "user", "content": "Tell me a story about a fox."}]


class ServiceTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.served = cls.enterClassContext(Served("--ignore-eos", "allow"))
        cls.client = cls.enterClassContext(Client(cls.served.address))

    def refused(self, **options):
        with self.assertRaises(BatonError) as caught:
            self.client.generate(STORY, **options).read()
        return caught.exception

    def test_streams_pieces_and_ends_with_figures(self):
        answer = self.client.generate(STORY, max_tokens=20, temperature=0.8, seed=7)
        self.assertIsNone(answer.started)
        pieces = list(answer)
        self.assertGreater(len(pieces), 2)
        self.assertEqual(sum(len(piece.token_ids) for piece in pieces), answer.final.usage.completion_tokens)
        self.assertEqual((answer.started.seed, answer.started.model), (7, "demo"))
        self.assertEqual((answer.final.attempts, answer.final.calls), (1, 1))
        self.assertGreater(answer.final.timings.total_ms, 0)
        again = self.client.generate(STORY, max_tokens=20, temperature=0.8, seed=7).read()
        self.assertEqual(again.text, "".join(piece.text for piece in pieces))

    def test_ids_are_used_as_they_are(self):
        ids = self.client.tokenize(STORY)
        by_text = self.client.generate(STORY, max_tokens=8, temperature=0).read()
        by_ids = self.client.generate(ids, max_tokens=8, temperature=0).read()
        self.assertEqual(by_ids.text, by_text.text)
        self.assertEqual(self.client.detokenize(ids), STORY)

    def test_says_what_is_served(self):
        self.assertEqual(self.client.models(), ["demo"])
        info = self.client.model_info()
        self.assertEqual(info.name, "demo")
        self.assertTrue(info.eos_tokens)
        with self.assertRaises(BatonError) as caught:
            self.client.model_info("nobody")
        self.assertEqual((caught.exception.code, caught.exception.reason), ("NOT_FOUND", "MODEL_NOT_FOUND"))

    def test_chats(self):
        answer = self.client.chat(TALK, max_tokens=12).read()
        self.assertTrue(answer.token_ids)

    def test_eos_steps_predictions_and_logprobs(self):
        answer = self.client.generate(STORY, max_tokens=12, temperature=0, eos="mask", eos_steps=True, predict=True,
                                      logprobs=2).read()
        self.assertEqual([step.step for step in answer.eos_steps], list(range(1, 13)))
        self.assertTrue(all(0 <= step.eos_prob <= 1 for step in answer.eos_steps))
        self.assertEqual({len(row.top) for row in answer.logprobs}, {2})
        self.assertTrue(answer.predictions)
        self.assertEqual(sorted(answer.predictions[0].within), [1, 4, 16, 64, 256])

    def test_every_option_reaches_the_server(self):
        answer = self.client.generate(
            STORY, model="demo", max_tokens=6, min_tokens=1, temperature=0.5, top_p=0.9, top_k=50, min_p=0.01,
            repetition_penalty=1.1, presence_penalty=0.1, frequency_penalty=0.1, no_repeat_ngram_size=3, seed=1,
            logit_bias={5: -1.0}, stop=["never said"], stop_token_ids=[3], include_stop_in_output=True,
            eos="honor", length_control=LengthControl(6, 1.0), skip_special_tokens=False, predict=True,
            predict_every=2, request_id="all-of-it", tag="tests", cache_salt="s", preset="qa").read()
        self.assertEqual(answer.started.request_id, "all-of-it")
        self.assertEqual([p.at_step for p in answer.predictions], [2, 4, 6][:len(answer.predictions)])

    def test_a_preset_stands_for_what_is_left_out(self):
        sampling = self.client.generate(STORY, max_tokens=2, preset="dialogue", top_p=0.8).read().started.sampling
        self.assertEqual({name: sampling[name] for name in ("temperature", "top_p", "no_repeat_ngram_size")},
                         {"temperature": 0.7, "top_p": 0.8, "no_repeat_ngram_size": 4})
        error = self.refused(preset="poetry")
        self.assertEqual((error.reason, error.field), ("INVALID_SAMPLING", "spec.preset"))
        self.assertIn("creative", error.message)

    def test_guided_answers(self):
        answer = self.client.chat(TALK, guided_choice=["yes", "no"], max_tokens=9).read()
        self.assertIn(answer.text, ("yes", "no"))
        self.assertEqual(answer.final.finish_reason, "stop_grammar")
        schema = {"type": "object", "properties": {"b": {"type": "boolean"}, "a": {"enum": [1, 2]}},
                  "required": ["b", "a"], "additionalProperties": False}
        answer = self.client.chat(TALK, guided_json=schema, max_tokens=60).read()
        self.assertEqual(list(json.loads(answer.text)), ["b", "a"])
        error = self.refused(guided_regex="(")
        self.assertEqual((error.reason, error.field), ("INVALID_GUIDE", "spec.guided_regex"))

    def test_errors_have_reason_and_field(self):
        error = self.refused(temperature=-1)
        self.assertEqual((error.code, error.reason, error.field),
                         ("INVALID_ARGUMENT", "INVALID_SAMPLING", "spec.sampling.temperature"))
        self.assertIn("temperature", error.message)
        with self.assertRaises(TypeError):
            self.client.generate(STORY, temprature=1)
        with self.assertRaises(ValueError):
            self.client.generate(STORY, eos="never")

    def test_closing_an_answer_frees_the_request(self):
        before = self.served.given_up()
        with self.client.generate(STORY, **ENDLESS) as answer:
            first = list(itertools.islice(answer, 3))
        self.assertEqual(len(first), 3)
        self.assertEqual(list(answer), [])
        self.assertIsNone(answer.final)
        self.served.wait_idle()
        self.assertEqual(self.served.given_up(), before + 1)

    def test_another_thread_may_close(self):
        answer = self.client.generate(STORY, **ENDLESS)
        next(answer)
        closer = threading.Thread(target=answer.close)
        closer.start()
        for _ in answer:
            pass
        closer.join()
        self.assertIsNone(answer.final)
        self.served.wait_idle()

    def test_deadline(self):
        self.assertEqual(self.refused(timeout_s=0.02, **ENDLESS).code, "DEADLINE_EXCEEDED")
        self.served.wait_idle()

    def test_many_at_once(self):
        def ask(seed):
            return self.client.generate(STORY, max_tokens=10, seed=seed).read().token_ids

        alone = [ask(seed) for seed in range(8)]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            self.assertEqual(list(pool.map(ask, range(8))), alone)

    def test_a_closed_client_says_so(self):
        before = self.served.given_up()
        client = Client(self.served.address)
        answer = client.generate(STORY, **ENDLESS)
        next(answer)
        client.close()
        for call in (client.models, lambda: client.generate(STORY), lambda: list(answer)):
            with self.assertRaisesRegex(RuntimeError, "closed"):
                call()
        self.served.wait_idle()
        self.assertEqual(self.served.given_up(), before + 1)

    def test_nobody_listens(self):
        with Client("127.0.0.1:1", retry=Retry(limit_s=0)) as client:
            with self.assertRaises(BatonError) as caught:
                client.models()
        self.assertEqual((caught.exception.code, caught.exception.reason), ("UNAVAILABLE", ""))


class AsyncServiceTest(unittest.IsolatedAsyncioTestCase):
    @classmethod
    def setUpClass(cls):
        cls.served = cls.enterClassContext(Served("--ignore-eos", "allow"))

    async def asyncSetUp(self):
        self.client = AsyncClient(self.served.address)

    async def asyncTearDown(self):
        await self.client.close()

    async def test_streams_and_says_what_is_served(self):
        answer = self.client.generate(STORY, max_tokens=10, seed=3, eos_steps=True)
        pieces = [piece async for piece in answer]
        tokens = answer.final.usage.completion_tokens
        self.assertEqual(sum(len(piece.eos_steps) for piece in pieces), tokens)
        self.assertEqual(await self.client.models(), ["demo"])
        self.assertEqual((await self.client.model_info()).name, "demo")
        ids = await self.client.tokenize(STORY)
        self.assertEqual(await self.client.detokenize(ids), STORY)
        self.assertTrue((await self.client.chat(TALK, max_tokens=5).read()).token_ids)

    async def test_closing_an_answer_frees_the_request(self):
        async with self.client.generate(STORY, **ENDLESS) as answer:
            async for _ in answer:
                break
        self.assertEqual([piece async for piece in answer], [])
        self.served.wait_idle()

    async def test_cancelling_a_task_frees_the_request(self):
        answer = self.client.generate(STORY, **ENDLESS)
        await anext(answer)
        task = asyncio.create_task(answer.read())
        await asyncio.sleep(0)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        self.served.wait_idle()

    async def test_another_task_may_close(self):
        answer = self.client.generate(STORY, **ENDLESS)
        await anext(answer)
        rest = asyncio.create_task(anext(answer, None))
        await answer.aclose()
        await rest
        self.assertIsNone(answer.final)
        self.served.wait_idle()

    async def test_many_at_once(self):
        async def ask(seed):
            return (await self.client.generate(STORY, max_tokens=10, seed=seed).read()).token_ids

        alone = [await ask(seed) for seed in range(8)]
        self.assertEqual(await asyncio.gather(*map(ask, range(8))), alone)

    async def test_deadline_and_errors(self):
        with self.assertRaises(BatonError) as caught:
            await self.client.generate(STORY, timeout_s=0.02, **ENDLESS).read()
        self.assertEqual(caught.exception.code, "DEADLINE_EXCEEDED")
        with self.assertRaises(BatonError) as caught:
            await self.client.generate(STORY, top_p=2).read()
        self.assertEqual((caught.exception.reason, caught.exception.field),
                         ("INVALID_SAMPLING", "spec.sampling.top_p"))

    async def test_a_closed_client_says_so(self):
        await self.client.close()
        with self.assertRaisesRegex(RuntimeError, "closed"):
            self.client.generate(STORY)
        with self.assertRaisesRegex(RuntimeError, "closed"):
            await self.client.models()

    async def test_closing_the_client_frees_what_its_tasks_and_answers_run(self):
        before = self.served.given_up()

        async def stream(answer, began):
            async for _ in answer:
                began.set()

        async with AsyncClient(self.served.address) as client:
            unread = client.generate(STORY, **ENDLESS)
            await anext(unread)
            events = [asyncio.Event() for _ in range(5)]
            tasks = [asyncio.create_task(stream(client.generate(STORY, **ENDLESS), began)) for began in events]
            await asyncio.gather(*(began.wait() for began in events))
        for task in (*tasks, unread.read()):
            with self.assertRaisesRegex(RuntimeError, "closed"):
                await task
        self.served.wait_idle()
        self.assertEqual(self.served.given_up(), before + 6)


class TlsTest(unittest.TestCase):
    def test_mutual_tls(self):
        with secure_service() as (served, folder):
            red = Tls(ca=folder / "ca.pem", cert=folder / "team-red.pem", key=folder / "team-red.key",
                      server_name="router")
            with Client(served.address, tls=red) as client:
                self.assertTrue(client.generate(STORY, max_tokens=4).read().text)

            async def ask():
                async with AsyncClient(served.address, tls=red) as client:
                    return await client.models()
            self.assertEqual(asyncio.run(ask()), ["demo"])
            for wrong in (Tls(ca=folder / "ca.pem", server_name="router"), None,
                          Tls(ca=folder / "ca.pem", cert=folder / "team-red.pem", key=folder / "team-red.key",
                              server_name="somebody")):
                with Client(served.address, tls=wrong, retry=Retry(limit_s=0)) as client:
                    with self.assertRaises(BatonError) as caught:
                        client.models()
                self.assertEqual(caught.exception.code, "UNAVAILABLE")

    def test_keys(self):
        with secure_service("right") as (served, folder):
            red = Tls(ca=folder / "ca.pem", cert=folder / "team-red.pem", key=folder / "team-red.key",
                      server_name="router")

            async def ask(key):
                async with AsyncClient(served.address, tls=red, api_key=key) as client:
                    return (await client.generate(STORY, max_tokens=4).read()).token_ids
            with Client(served.address, tls=red, api_key="right") as client:
                tokens = client.generate(STORY, max_tokens=4, seed=1).read().token_ids
            self.assertEqual(len(tokens), 4)
            self.assertEqual(len(asyncio.run(ask("right"))), 4)
            for wrong in ("wrong", None):
                with self.assertRaises(BatonError) as caught, Client(served.address, tls=red, api_key=wrong) as client:
                    client.generate(STORY, max_tokens=4).read()
                self.assertEqual(caught.exception.code, "UNAUTHENTICATED")
                with self.assertRaises(BatonError) as caught:
                    asyncio.run(ask(wrong))
                self.assertEqual(caught.exception.code, "UNAUTHENTICATED")

    def test_a_certificate_needs_its_key(self):
        with self.assertRaisesRegex(ValueError, "belong together"):
            Client("127.0.0.1:1", tls=Tls(ca="ca.pem", cert="me.pem"))


if __name__ == "__main__":
    unittest.main()
