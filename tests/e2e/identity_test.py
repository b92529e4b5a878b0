"""Same tokens however a request ran. Every test asserts by a counter that its path was taken."""

import threading
import unittest

from cluster import Cluster

QUESTION = "Tell me a long story about a fox who looked for a friend in the forest and by the river."
WORDS = ["river", "mouse", "boat", "king", "garden", "lamp", "bird", "stone"]


def requests(count, greedy):
    """`count` different requests; the first is the one that all ways are compared on."""
    made = []
    for i in range(count):
        text = QUESTION if i == 0 else f"Tell me a story about a {WORDS[i % 8]} and {i} friends who looked for a boat."
        made.append({"request_id": f"r{i}", "messages": [{"role": "user", "content": text}],
                     "temperature": 0 if greedy else 0.9, "seed": 11 + i, "max_tokens": 64,
                     "eos": "mask"})
    return made


def assert_alike(case, some, others):
    """The same tokens, texts, ends, figures and EOS rows, but for when they came."""
    for a, b in zip(some, others, strict=True):
        for key in ("token_ids", "text", "finish_reason", "stop_cause", "logprobs"):
            case.assertEqual(a[key], b[key], (key, a["request_id"]))
        case.assertEqual([{k: v for k, v in row.items() if k != "timestamp"} for row in a["eos"]],
                         [{k: v for k, v in row.items() if k != "timestamp"} for row in b["eos"]])


class Ways(unittest.TestCase):
    """The reference is each request alone on one unified worker."""

    dtype, isa, kv_dtype = "bfloat16", "auto", "auto"

    def flags(self, *more):
        return ["--dtype", self.dtype, "--isa", self.isa, "--kv-dtype", self.kv_dtype, *more]

    def alone(self, made):
        with Cluster(prefill=0, flags=self.flags("--max-num-seqs", "1")) as service:
            answers = service.generate(made, "--chat")
            self.assertEqual(service.decode[0].metrics().sum("baton_num_preemptions_total"), 0)
        return [answer["token_ids"] for answer in answers]

    def same(self, answers, expected):
        for i, (answer, tokens) in enumerate(zip(answers, expected, strict=True)):
            self.assertEqual(answer["token_ids"], tokens, f"request {i}")

    def check_all_ways(self, greedy):
        made = requests(32, greedy)
        expected = self.alone(made)
        self.batched(made, expected)
        self.split(made, expected)
        self.chunked(made[:8], expected[:8])
        self.preempted(made[:8], expected[:8])
        self.swapped(made[:8], expected[:8])
        self.prefix_cached(made[:2], expected[:2])
        self.resumed(made[0], expected[0])

    def batched(self, made, expected):
        # Prompts wait until as many are there as run at once; then one step takes them all.
        together = ["--max-num-seqs", "32", "--prefill-batch-wait-ms", "60000",
                    "--max-prefill-tokens", "8192", "--max-num-batched-tokens", "8192"]
        with Cluster(prefill=0, flags=self.flags(*together)) as service:
            self.same(service.generate(made, "--chat", concurrency=32), expected)
            metrics = service.decode[0].metrics()
            steps = metrics.sum("baton_batch_size_count", phase="decode")
            sequences = metrics.sum("baton_batch_size_sum", phase="decode")
            self.assertEqual((steps, sequences), (63, 32 * 63), "each step decodes all 32")
            service.assert_nothing_held()

    def split(self, made, expected):
        with Cluster(decode=1, prefill=1, flags=self.flags()) as service:
            self.same(service.generate(made, "--chat", concurrency=8), expected)
            self.assertGreater(service.decode[0].metrics().sum(
                "baton_prompt_tokens_by_source_total", source="external_kv_transfer"), 0)
            service.assert_nothing_held()

    def chunked(self, made, expected):
        # Answers may be preempted here, too, where requests come fast enough.
        with Cluster(prefill=0, flags=self.flags("--max-num-batched-tokens", "7",
                                                 "--kv-cache-tokens", "128")) as service:
            answers = service.generate(made, "--chat", concurrency=8)
            self.same(answers, expected)
            self.assertGreater(min(answer["usage"]["prompt_tokens"] for answer in answers), 8)
            metrics = service.decode[0].metrics()
            self.assertEqual(metrics.sum("baton_iteration_tokens_bucket", le="8"),
                             metrics.sum("baton_iteration_tokens_count"), "no step takes a whole prompt")
            service.assert_nothing_held()

    def preempted(self, made, expected):
        # Prompts start together, however slowly they come, and two of their answers do not fit.
        tight = ["--max-num-seqs", "8", "--prefill-batch-wait-ms", "1000", "--kv-cache-tokens", "128"]
        with Cluster(prefill=0, flags=self.flags(*tight)) as service:
            self.same(service.generate(made, "--chat", concurrency=8), expected)
            self.assertGreaterEqual(
                service.decode[0].metrics().sum("baton_num_preemptions_total"), 1)
            service.assert_nothing_held()

    def swapped(self, made, expected):
        tight = ["--max-num-seqs", "8", "--prefill-batch-wait-ms", "1000", "--kv-cache-tokens", "128"]
        with Cluster(prefill=0, flags=self.flags(*tight), decode_flags=["--swap-space", "4MiB"]) as service:
            self.same(service.generate(made, "--chat", concurrency=8), expected)
            metrics = service.decode[0].metrics()
            self.assertGreaterEqual(metrics.sum("baton_preemptions_by_way_total", way="swap"), 1)
            self.assertGreaterEqual(metrics.sum("baton_swap_blocks_total", direction="in"), 1)
            self.assertEqual(metrics.sum("baton_swap_space_usage_perc"), 0)
            service.assert_nothing_held()

    def prefix_cached(self, made, expected):
        with Cluster(prefill=0, flags=self.flags()) as service:
            service.generate(made, "--chat")
            again = service.generate([{**m, "request_id": m["request_id"] + "b"} for m in made],
                                     "--chat")
            self.same(again, expected)
            self.assertGreater(again[0]["usage"]["cached_tokens"], 0)

    def resumed(self, request, expected):
        with Cluster(decode=1, prefill=1, flags=self.flags(), decode_flags=["--enable-failpoints"],
                     worker_environment={"BATON_FAILPOINT": "decoding@20:stop"}) as service:
            answers = []
            thread = threading.Thread(
                target=lambda: answers.extend(service.generate([request], "--chat", check=False)))
            thread.start()
            service.replace_stopped_decode()
            thread.join()
            self.same(answers, [expected])
            self.assertEqual(answers[0]["attempts"], 2)
            service.assert_nothing_held()


class Bfloat16(Ways):
    def test_greedy(self):
        self.check_all_ways(greedy=True)

    def test_seeded_sampling(self):
        self.check_all_ways(greedy=False)


class Int8Kv(Ways):
    kv_dtype = "int8"

    def test_seeded_sampling(self):
        self.check_all_ways(greedy=False)


class Fp8Kv(Ways):
    kv_dtype = "fp8"

    def test_greedy(self):
        self.check_all_ways(greedy=True)


class Float32(Bfloat16):
    dtype = "float32"


class Avx2(Bfloat16):
    isa = "avx2"


class Avx2Float32(Bfloat16):
    dtype, isa = "float32", "avx2"


del Ways


class AsyncScheduling(unittest.TestCase):
    """Workers that plan a step while one computes, against workers that do not."""

    def answers(self, mode, made):
        with Cluster(flags=["--async-scheduling", mode, "--max-num-batched-tokens", "24"]) as service:
            answers = service.generate(made, "--chat", "--eos-steps", "--logprobs", "2", concurrency=8)
            service.assert_nothing_held()
            overlapped = [worker.metrics().sum("baton_steps_overlapped_total")
                          for worker in (*service.decode, *service.prefill)]
        return answers, overlapped

    def test_tokens_and_signals_are_the_same(self):
        made = requests(6, greedy=True) + [{**m, "request_id": m["request_id"] + "s"}
                                           for m in requests(6, greedy=False)]
        for request in made[::3]:
            request.update(eos="honor", max_tokens=200, min_tokens=12)
        for request in made[1::3]:
            request.update(repetition_penalty=1.1, frequency_penalty=0.2)
        made[2]["no_repeat_ngram_size"] = 3
        # A prompt of many chunks: the prefill worker overlaps them however the requests arrive.
        made[3]["messages"] = [{"role": "user", "content": " ".join([QUESTION] * 6)}]
        plain, none = self.answers("off", made)
        overlapped, some = self.answers("on", made)
        self.assertEqual(none, [0, 0])
        self.assertTrue(all(count > 3 for count in some), some)
        assert_alike(self, overlapped, plain)


class Speculation(unittest.TestCase):
    """Decode workers that verify foretold tokens, against workers that do not."""

    def answers(self, made, *flags):
        with Cluster(flags=["--max-num-batched-tokens", "40", *flags]) as service:
            answers = service.generate(made, "--chat", "--eos-steps", "--logprobs", "2", concurrency=4)
            service.assert_nothing_held()
            accepted = [worker.metrics().sum("baton_spec_decode_num_accepted_tokens_total")
                        for worker in (*service.decode, *service.prefill)]
        return answers, accepted

    def test_tokens_and_signals_are_the_same(self):
        made = requests(4, greedy=True) + [{**m, "request_id": m["request_id"] + "s"}
                                           for m in requests(4, greedy=False)]
        for request in made:
            request["max_tokens"] = 150
        made[1].update(eos="honor", min_tokens=12)
        made[2].update(eos="honor", stop=["river", "."])
        made[3].update(eos="continue", frequency_penalty=0.2)
        made[5]["no_repeat_ngram_size"] = 3
        made[6].update(eos="honor", repetition_penalty=1.1)
        plain, none = self.answers(made)
        self.assertEqual(none, [0, 0])
        for scheduling in ("off", "on"):
            with self.subTest(scheduling=scheduling):
                foretold, (decode, prefill) = self.answers(
                    made, "--speculative", "ngram", "--async-scheduling", scheduling)
                self.assertGreater(decode, 20)
                self.assertEqual(prefill, 0)
                assert_alike(self, foretold, plain)


if __name__ == "__main__":
    unittest.main()
