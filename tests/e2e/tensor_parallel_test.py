"""Workers of unequal tensor-parallel sizes serve one model together: in fp32 the greedy tokens are those of one rank.
Workers of unequal KV caches do not."""

import pathlib
import subprocess
import tempfile
import unittest

from cluster import BIN, DEMO_MODEL, MAKE_GGUF, PATIENCE_S, Cluster

TOPICS = ["a fox and a bird", "the king's garden", "a boat on the river", "a lamp in the night"]


def flags(ranks):
    return ["--tensor-parallel-size", str(ranks)]


class TensorParallelTest(unittest.TestCase):
    """The demo model has four heads and two KV heads: four ranks hold copies."""

    model, kv_dtype, ranks = DEMO_MODEL, "auto", 1  # what is served, and by how many ranks as it is expected

    @classmethod
    def setUpClass(cls):
        cls.requests = [{"request_id": f"r{i}", "temperature": 0, "max_tokens": 48, "eos": "mask",
                         "messages": [{"role": "user", "content": f"Tell me a long story about {topic}."}]}
                        for i, topic in enumerate(TOPICS)]
        cls.expected = cls.tokens(prefill=0, decode_ranks=cls.ranks)

    @classmethod
    def tokens(cls, prefill, prefill_ranks=1, decode_ranks=1, check=None):
        with Cluster(cls.model, prefill=prefill, flags=["--dtype", "float32", "--kv-dtype", cls.kv_dtype],
                     prefill_flags=flags(prefill_ranks),
                     decode_flags=flags(decode_ranks)) as service:
            answers = service.generate(cls.requests, "--chat", concurrency=4)
            service.assert_nothing_held()
            if check:
                check(service)
        return [answer["token_ids"] for answer in answers]

    def check_split(self, prefill_ranks, decode_ranks):
        def handed_over(service):
            self.assertGreater(service.decode[0].metrics().sum(
                "baton_prompt_tokens_by_source_total", source="external_kv_transfer"), 0)
            unequal = service.router.metrics().sum("baton_router_numerics_mismatch_total")
            self.assertEqual(unequal > 0, prefill_ranks != decode_ranks)
        self.assertEqual(self.tokens(1, prefill_ranks, decode_ranks, handed_over), self.expected)

    def test_one_worker(self):
        for ranks in (2, 4):
            self.assertEqual(self.tokens(0, decode_ranks=ranks), self.expected, ranks)

    def test_heads_are_split(self):
        self.check_split(1, 2)

    def test_heads_are_joined(self):
        self.check_split(2, 1)

    def test_heads_stay_apart(self):
        self.check_split(2, 2)

    def test_heads_are_copied(self):
        self.check_split(2, 4)

    def test_copies_are_left_out(self):
        self.check_split(4, 1)

    def test_a_size_that_does_not_fit_is_refused(self):
        result = subprocess.run(
            [BIN / "baton-decode", DEMO_MODEL, "--port", "0", "--admin-port", "0", *flags(3)],
            capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(result.returncode, 3, result.stderr)
        for part in ("4 query heads", "2 KV heads", "MLP of 768", "3 ranks", "1, 2, 4"):
            self.assertIn(part, result.stderr)
        result = subprocess.run(
            [BIN / "baton-decode", DEMO_MODEL, *flags(0)], capture_output=True, text=True, timeout=60,
            check=False)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("--tensor-parallel-size", result.stderr)


class SmallWeightsTest(unittest.TestCase):
    """Two ranks with small weights write what one worker of two ranks writes; that of one rank may round otherwise."""

    def check_heads_stay_apart(self, make, name):
        with tempfile.TemporaryDirectory(prefix="baton-ranks-") as folder:
            model = pathlib.Path(folder) / name
            subprocess.run(make(model), check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE_S)
            ways = type("SmallWays", (TensorParallelTest,), {"model": model, "ranks": 2})
            ways.setUpClass()
            self.assertEqual(len(set(map(tuple, ways.expected))), len(TOPICS), "they depend on prompts")
            ways("check_split").check_split(2, 2)

    def test_integers(self):
        self.check_heads_stay_apart(
            lambda model: [BIN / "baton", "model", "quantize", DEMO_MODEL, model, "--scheme", "w4",
                           "--group", "32", "--lm-head", "w8"], "w4")

    def test_units_and_minimums_of_a_gguf_file(self):
        """Its blocks, which are random, span the columns of both ranks."""
        self.check_heads_stay_apart(
            lambda model: [MAKE_GGUF, DEMO_MODEL, model, "Q4_K"], "q4.gguf")


class Int8KvTest(unittest.TestCase):
    """Codes and their scales are divided and joined as floats are."""

    @classmethod
    def setUpClass(cls):
        cls.ways = type("Int8Ways", (TensorParallelTest,), {"kv_dtype": "int8"})
        cls.ways.setUpClass()

    def test_heads_are_split_and_joined(self):
        ways = self.ways("check_split")
        ways.check_split(1, 2)
        ways.check_split(4, 1)

    def test_workers_of_another_kv_dtype_are_never_paired(self):
        with Cluster(prefill=1, flags=["--dtype", "float32"], prefill_flags=["--kv-dtype", "fp8"],
                     decode_flags=["--kv-dtype", "int8"]) as service:
            service.wait_all_seen()
            said = service.router.log.read_text()
            self.assertRegex(said, "prefill workers with KV blocks .*fp8.* have no decode worker to hand over to")
            self.assertRegex(said, "decode workers with KV blocks .*int8.* can be given no prompt by a prefill worker")
            answers = service.generate(self.ways.requests, "--chat", concurrency=4)
            self.assertEqual([answer["token_ids"] for answer in answers], self.ways.expected)
            self.assertEqual(service.decode[0].metrics().sum(
                "baton_prompt_tokens_by_source_total", source="external_kv_transfer"), 0)
            service.assert_nothing_held()

    def test_what_cannot_be_is_refused_by_name(self):
        def refused(*more):
            result = subprocess.run(
                [BIN / "baton-decode", DEMO_MODEL, "--port", "0", "--admin-port", "0", *more],
                capture_output=True, text=True, timeout=60, check=False)
            self.assertNotEqual(result.returncode, 0)
            return result.stderr
        for word in ("auto", "float32", "bfloat16", "float16", "int8", "fp8"):
            self.assertIn(word, refused("--kv-dtype", "int4"))
        self.assertIn("--kv-dtype int8 on device cuda", refused("--kv-dtype", "int8", "--device", "cuda"))


if __name__ == "__main__":
    unittest.main()
