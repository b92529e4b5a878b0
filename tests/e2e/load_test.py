"""Two hundred clients at once: a tenth cancel, a few never read; and a thousand forced lengths."""

import pathlib
import random
import threading
import unittest

import grpc

import client
from cluster import Cluster, wait_until

CLIENTS = 200


def resident_kib(process):
    for line in pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    return 0


class LoadTest(unittest.TestCase):
    def one_client(self, wire, index, outcome):
        rng = random.Random(index)
        call = wire.generate({"text": f"Once upon a time there were {index} birds", "spec": {
            "sampling": {"seed": str(index), "temperature": 0.8},
            "stop": {"maxTokens": 48, "eosPolicy": "EOS_POLICY_IGNORE_MASK"}}}, timeout_s=300)
        cancel_after = rng.randrange(1, 20) if index % 10 == 3 else None
        tokens = 0
        try:
            for event in call:
                tokens += len(event.delta.token_ids)
                if cancel_after is not None and tokens >= cancel_after:
                    call.cancel()
                    break
            outcome[index] = "cancelled" if cancel_after is not None else tokens
        except grpc.RpcError as error:
            outcome[index] = error.code().name

    def wave(self, wire):
        outcome = {}
        silent = [wire.generate({"text": "Once", "spec": {"stop": {
            "maxTokens": 200, "eosPolicy": "EOS_POLICY_IGNORE_MASK"}}}) for _ in range(4)]
        threads = [threading.Thread(target=self.one_client, args=(wire, i, outcome))
                   for i in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for call in silent:
            call.cancel()
        for index in range(CLIENTS):
            expected = "cancelled" if index % 10 == 3 else 48
            self.assertEqual(outcome[index], expected, f"client {index} (its seed)")

    def test_two_hundred_clients(self):
        with Cluster(flags=["--max-num-seqs", "32"]) as service:
            wire = client.Client(service.router.grpc)
            self.wave(wire)
            service.assert_nothing_held()
            first = [resident_kib(process) for process in service.processes()]
            self.wave(wire)
            service.assert_nothing_held()
            for process, before in zip(service.processes(), first):
                self.assertLess(resident_kib(process), before * 1.15 + 8192, process.name)
            wire.close()

    def test_a_thousand_forced_lengths_are_exact(self):
        with Cluster(prefill=0, flags=["--max-num-seqs", "64"]) as service:
            made = [{"request_id": f"f{i}", "seed": i, "temperature": 0.8, "eos": "mask",
                     "max_tokens": 96, "messages": [{"role": "user", "content": "List 3 colors."}]}
                    for i in range(1000)]
            answers = service.generate(made, "--chat", concurrency=64)
            self.assertEqual([len(answer["token_ids"]) for answer in answers], [96] * 1000)
            natural = sum(answer["usage"]["natural_end_step"] is not None for answer in answers)
            self.assertGreaterEqual(natural, 950)
            self.assertEqual({answer["finish_reason"] for answer in answers}, {"length"})
            service.assert_nothing_held()

    def test_a_full_queue_refuses_and_says_when_to_come_back(self):
        with Cluster(prefill=0, flags=["--max-num-seqs", "1", "--max-num-queued-reqs", "1"],
                     router_flags=["--max-num-queued-reqs", "2"]) as service:
            wire = client.Client(service.router.grpc)
            body = {"text": "Once", "spec": {"stop": {"maxTokens": 400,
                                                     "eosPolicy": "EOS_POLICY_IGNORE_MASK"}}}
            calls = [wire.generate(body) for _ in range(12)]
            errors = []
            for call in calls:
                try:
                    for _ in call:
                        pass
                except grpc.RpcError as error:
                    errors.append(error)
            self.assertTrue(errors)
            for error in errors:
                self.assertEqual(error.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
                self.assertEqual(client.reason_of(error), "QUEUE_FULL")
                self.assertTrue(client.has_retry_info(error))
            self.assertLess(len(errors), len(calls))
            wait_until(lambda: service.router.metrics().sum("baton_requests_inflight") == 0, "the end")
            wire.close()


if __name__ == "__main__":
    unittest.main()
