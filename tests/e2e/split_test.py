"""--local-prefill-below auto on a service: a busy prefill worker leaves short prompts to the decode worker, an idle one computes
them, and no token changes."""

import unittest

from cluster import Cluster, begin, wait_until

# A decode worker whose steps take longer than those of the prefill worker, and has answers to write meanwhile.
SLOW = {"decode_flags": ["--enable-failpoints", "--log-level", "error"],
        "role_environment": {"decode": {"BATON_FAILPOINT": "stepping:delay_ms=10"}}}
LONG = "Once upon a time there was a fox who lived in a wood and never slept. "


def request(name, prompt, tokens=4):
    return {"request_id": name, "prompt": prompt, "max_tokens": tokens, "temperature": 0, "eos": "mask"}


def shorts(tag):
    return [request(f"{tag}{i}", f"A fox and {i} birds") for i in range(12)]


def tokens_of(answers):
    return [answer["token_ids"] for answer in answers]


def decided(cluster, decision, reason):
    return cluster.router.metrics().sum("baton_pd_reason_total", decision=decision, reason=reason)


class SplitTest(unittest.TestCase):
    def test_a_busy_prefill_worker_makes_short_prompts_go_local_and_an_idle_one_splits_them(self):
        with Cluster() as cluster:
            expected = tokens_of(cluster.generate(shorts("e")))
            self.assertEqual(decided(cluster, "split", "length"), 12)

        with Cluster(router_flags=["--local-prefill-below", "auto"], **SLOW) as cluster:
            learning = [request(f"l{i}", f"{i} {LONG * (1 + i % 5)}") for i in range(10)]
            cluster.generate(learning)
            self.assertGreaterEqual(decided(cluster, "split", "unknown"), 8)

            background = begin(cluster.generate, [request(f"b{i}", f"{i} wolves", 600) for i in range(8)], concurrency=8)
            decode = cluster.decode[0]
            wait_until(lambda: decode.metrics().sum("baton_num_requests_running") >= 8, "answers being written")
            local = sum(decided(cluster, "local", why) for why in ("wait", "compute", "transfer", "others"))
            idle = cluster.generate(shorts("i"))
            self.assertEqual(tokens_of(idle), expected)
            self.assertTrue(all(answer["workers"]["prefill"] for answer in idle), "the prefill worker had nothing to do")
            self.assertEqual(local, sum(decided(cluster, "local", why)
                                        for why in ("wait", "compute", "transfer", "others")))

            flood = begin(cluster.generate, [request(f"f{i}", f"{i} {LONG * 40}") for i in range(80)], concurrency=80)
            wait_until(lambda: decided(cluster, "local", "wait") > 0, "a prompt that goes past the prefill worker's line")
            self.assertEqual(tokens_of(cluster.generate(shorts("y"), concurrency=12)), expected)
            self.assertEqual([len(tokens) for tokens in tokens_of(flood.result())], [4] * 80)
            self.assertEqual([len(tokens) for tokens in tokens_of(background.result())], [600] * 8)
            cluster.assert_nothing_held()


if __name__ == "__main__":
    unittest.main()
