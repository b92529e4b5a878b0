"""KV handed over from device to device: two worker processes over the fake NCCL library.

The fake (tests/fakes/fake_nccl) moves host memory and misbehaves as BATON_FAKE_NCCL says. Whatever it
does, every request gets the tokens that it gets over gRPC; counters tell that the path was taken.
"""

import itertools
import os
import pathlib
import signal
import subprocess
import threading
import unittest

from client import Client
from cluster import BIN, DEMO_MODEL, Cluster, begin, wait_until

FAKE = pathlib.Path(os.environ.get("BATON_FAKE_NCCL_LIBRARY", BIN.parent / "tests/libbaton_fake_nccl.so"))
NCCL = ["--kv-transport", "nccl", "--nccl-library", str(FAKE)]
WAYS = {"nccl": NCCL, "cuda_ipc": ["--kv-transport", "cuda_ipc"]}
PARCEL_HEADER_BYTES = 12288
FLOAT32_BLOCK_BYTES = 4 * 2 * 2 * 16 * 64 * 4  # of the demo model: layers, K and V, heads, tokens, head_dim
# Where a worker stops in the middle of a transfer; the first hit is the parcel that proves the pair.
IN_A_TRANSFER = (("prefill", "sending_parcel@2:stop"), ("decode", "received_parcel@2:stop"))
WORDS = ["river", "mouse", "boat", "king", "garden", "lamp", "bird", "stone"]


def requests(count, name="r"):
    return [{"request_id": f"{name}{i}", "temperature": 0.8, "seed": 7 + i, "max_tokens": 24, "eos": "mask",
             "messages": [{"role": "user", "content": f"Tell me a story about a {WORDS[i % 8]} and {i} friends "
                                                      "who looked for a fox by the river and in the woods."}]}
            for i in range(count)]


def service(way="nccl", flags=(), **arguments):
    by = WAYS.get(way, ["--kv-transport", way])
    return Cluster(flags=["--max-num-batched-tokens", "32", "--no-enable-prefix-caching", *by, *flags], **arguments)


def stopping(way, role, point):
    """A service whose one worker of `role` stops at `point`."""
    return service(way, flags=["--enable-failpoints"], role_environment={role: {"BATON_FAILPOINT": point}})


def until_stopped(running, victim):
    """Generates rounds of requests in a thread until a transfer by a pair has stopped `victim`.

    Returns the future of their answers, round by round. The first ones may go by gRPC: the pair is built meanwhile.
    """
    stopped = threading.Event()

    def generate():
        rounds = []
        while not rounds or not stopped.is_set():
            rounds.append(running.generate(requests(4, f"round{len(rounds)}-"), concurrency=4))
        return rounds

    rounds = begin(generate)
    wait_until(victim.stopped, "the failpoint")
    stopped.set()
    return rounds


def events(process, event):
    return process.metrics().sum("baton_kv_pair_events_total", event=event)


def pairs(process):
    return process.metrics().sum("baton_kv_pairs")


def through_pairs(process, way="nccl"):
    return process.metrics().sum("baton_kv_pushes_total", transport=way)


class Handoff(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with Cluster(flags=["--max-num-batched-tokens", "32", "--kv-transport", "grpc"]) as plain:
            cls.expected = [answer["token_ids"] for answer in plain.generate(requests(8))]
            assert through_pairs(plain.prefill[0]) == 0

    def warm(self, running):
        """Has the pairs built as a router does, but before the first request, which might use one or not."""
        for prefill, decode in itertools.product(running.prefill, running.decode):
            worker, asked = Client(decode.grpc), Client(prefill.grpc)
            watch = worker.stream("baton.worker.v1.StatusService/Watch", {"protocol": {"major": 1}})
            incarnation = next(watch).identity.incarnation
            watch.cancel()
            asked.unary("baton.worker.v1.PrefillService/WarmPair",
                        {"push_address": decode.grpc, "incarnation": str(incarnation)})
            worker.close()
            asked.close()
            wait_until(lambda p=prefill: pairs(p) >= 1, "a warm pair")

    def same(self, answers, attempts=None):
        for i, answer in enumerate(answers):
            self.assertEqual(answer["token_ids"], self.expected[i], f"request {i}")
            if attempts is not None:
                self.assertEqual(answer["attempts"], attempts, f"request {i}")

    def test_tokens_are_those_of_grpc(self):
        with service() as running:
            self.warm(running)
            self.same(running.generate(requests(8), concurrency=4), attempts=1)
            prefill, decode = running.prefill[0], running.decode[0]
            self.assertEqual(through_pairs(prefill), 8)
            self.assertGreater(decode.metrics().sum("baton_kv_pair_bytes_total"), 8 * 12288)
            self.assertEqual(events(prefill, "built"), 1)
            self.assertEqual(events(prefill, "aborted"), 0)
            self.assertGreaterEqual(prefill.metrics().sum("baton_kv_pair_grant_wait_seconds_count"), 8)
            self.assertEqual(running.router.metrics().sum("baton_router_pair_warmups_total", outcome="failed"), 0)
            running.assert_nothing_held()

    def test_workers_of_one_host_copy_out_of_each_others_staging(self):
        with service("cuda_ipc") as running:
            self.warm(running)
            before = through_pairs(running.prefill[0], "cuda_ipc")
            self.same(running.generate(requests(8), concurrency=4), attempts=1)
            self.assertEqual(through_pairs(running.prefill[0], "cuda_ipc"), before + 8)
            self.assertEqual(events(running.prefill[0], "aborted"), 0)
            running.assert_nothing_held()

    def test_a_prefill_worker_of_two_ranks_joins_heads_on_the_way_into_a_pair(self):
        ranks = ["--tensor-parallel-size", "2"]
        with service(flags=["--dtype", "float32"], prefill_flags=ranks) as running:
            first = running.generate(requests(4, "by_grpc"))
            wait_until(lambda: pairs(running.prefill[0]) == 1, "a warm pair")
            before = through_pairs(running.prefill[0])
            second = running.generate(requests(4, "by_pair"))
            self.assertEqual(through_pairs(running.prefill[0]), before + 4)
            self.assertEqual([a["token_ids"] for a in first], [a["token_ids"] for a in second])
            running.assert_nothing_held()

    def test_blocks_reach_a_decode_worker_of_two_ranks_through_a_pair(self):
        for ranks in (1, 2):
            divided = {"flags": ["--dtype", "float32"], "prefill_flags": ["--tensor-parallel-size", str(ranks)],
                       "decode_flags": ["--tensor-parallel-size", "2"]}
            with service("grpc", **divided) as messages:
                expected = [a["token_ids"] for a in messages.generate(requests(4))]
            for way in WAYS:
                with self.subTest(prefill_ranks=ranks, way=way), service(way, **divided) as running:
                    self.assertEqual(running.generate(requests(1, "warm"))[0]["token_ids"], expected[0])
                    wait_until(lambda r=running: pairs(r.prefill[0]) == 1, "a warm pair")
                    self.all_by_pair(running, way, expected)

    def all_by_pair(self, running, way, expected):
        """Every byte of these requests' blocks goes through the warm pair."""
        def figures():
            running.assert_nothing_held()
            prefill, decode = running.prefill[0].metrics(), running.decode[0].metrics()
            headers = PARCEL_HEADER_BYTES * prefill.sum("baton_kv_pair_grant_wait_seconds_count")
            return through_pairs(running.prefill[0], way), decode.sum("baton_kv_pair_bytes_total") - headers
        pushes, arrived = figures()
        answers = running.generate(requests(len(expected)), concurrency=2)
        self.assertEqual([a["token_ids"] for a in answers], expected)
        self.assertEqual([a["attempts"] for a in answers], [1] * len(answers))
        blocks = sum(-(-answer["usage"]["prompt_tokens"] // 16) for answer in answers)
        self.assertEqual(figures(), (pushes + len(expected), arrived + blocks * FLOAT32_BLOCK_BYTES))
        self.assertEqual(events(running.prefill[0], "aborted"), 0)

    def test_several_prefill_and_decode_workers(self):
        with service(prefill=2, decode=2) as running:
            for round_ in range(6):
                self.same(running.generate(requests(8, f"w{round_}-"), concurrency=4), attempts=1)
            self.assertGreater(sum(through_pairs(p) for p in running.prefill), 8)
            running.assert_nothing_held()

    def test_a_transfer_that_never_completes_is_sent_again_and_the_pair_rebuilt(self):
        # Send 1 proves the pair; 2 carries the first request.
        with service(role_environment={"prefill": {"BATON_FAKE_NCCL": "Send@2:never"}}) as running:
            self.warm(running)
            prefill = running.prefill[0]
            self.same(running.generate(requests(1)), attempts=1)
            self.assertEqual(events(prefill, "aborted"), 1)
            wait_until(lambda: pairs(prefill) == 1, "the pair to be rebuilt")
            self.assertEqual(events(prefill, "rebuilt"), 1)
            self.same(running.generate(requests(4, "again")), attempts=1)
            self.assertEqual(through_pairs(prefill), 5)
            running.assert_nothing_held()

    def test_after_two_failures_the_pair_falls_back(self):
        script = "Recv@2:never,Recv@4:async"
        with service(role_environment={"decode": {"BATON_FAKE_NCCL": script}}) as running:
            self.warm(running)
            prefill = running.prefill[0]
            self.same(running.generate(requests(1)), attempts=1)
            wait_until(lambda: pairs(prefill) == 1, "the pair to be rebuilt")
            self.same(running.generate(requests(1, "second")), attempts=1)
            wait_until(lambda: events(prefill, "fallen_back") == 1, "the fall-back")
            self.assertEqual(pairs(prefill), 0)
            before = through_pairs(prefill)
            self.same(running.generate(requests(4, "later")), attempts=1)
            self.assertEqual(through_pairs(prefill), before)
            running.assert_nothing_held()

    def test_a_call_that_hangs_gives_the_device_up(self):
        for role, script in (("prefill", "Send@2:hang"), ("decode", "Recv@2:hang")):
            with self.subTest(role), service(role_environment={role: {"BATON_FAKE_NCCL": script}}) as running:
                self.warm(running)
                self.same(running.generate(requests(1)), attempts=1)
                worker = running.prefill[0] if role == "prefill" else running.decode[0]
                wait_until(lambda w=worker: events(w, "device_lost") == 1, "the device to be given up")
                self.same(running.generate(requests(4, "later")), attempts=1)
                running.assert_nothing_held()
                self.assertEqual(worker.terminate(), 0)

    def test_connecting_that_fails_or_never_ends_leaves_pushes_to_grpc(self):
        for script in ("CommInitRankConfig:fail", "CommInitRankConfig:async", "CommInitRankConfig:never",
                       "GetUniqueId:fail"):
            with self.subTest(script), service(role_environment={"decode": {"BATON_FAKE_NCCL": script}}) as running:
                self.same(running.generate(requests(4)), attempts=1)
                self.assertEqual(through_pairs(running.prefill[0]), 0)
                running.assert_nothing_held()

    def test_bytes_that_arrive_wrong_are_noticed(self):
        # In the parcel that proves the next epoch, send 3 meets no bytes that mean anything.
        script = "Send@2:corrupt,Send@3:corrupt"
        with service(role_environment={"prefill": {"BATON_FAKE_NCCL": script}}) as running:
            self.warm(running)
            self.same(running.generate(requests(1)))
            # A parcel that overtakes the opening of its push is discarded unread; then the next one tells.
            if events(running.decode[0], "aborted") == 0:
                self.same(running.generate(requests(1, "again")))
            self.assertEqual(events(running.decode[0], "aborted"), 1)
            running.assert_nothing_held()

    def test_a_worker_killed_during_a_transfer(self):
        for role, script in (("prefill", "Send@2:die"), ("decode", "Recv@2:die")):
            environment = {role: {"BATON_FAKE_NCCL": script}}
            with self.subTest(role), service(role_environment=environment) as running:
                self.warm(running)
                running.role_environment = {}
                running.spawn_worker(role).wait_ready()
                extra = running.spawn_router("router2").wait_ready()
                running.wait_routable(extra)
                first, running.router = running.router, extra
                victim = running.prefill[0] if role == "prefill" else running.decode[0]
                answers = []
                for i in range(12):  # until one of them is placed on the victim
                    answers += running.generate([{**requests(1)[0], "request_id": f"k{i}"}])
                    self.assertEqual(answers[-1]["token_ids"], self.expected[0])
                    if not victim.running():
                        break
                self.assertFalse(victim.running(), "the victim was in no transfer")
                running.assert_nothing_held()
                first.kill()

    def test_kill_9_during_a_transfer_loses_no_request(self):
        for way in WAYS:
            for role, point in IN_A_TRANSFER:
                with self.subTest(way=way, role=role), stopping(way, role, point) as running:
                    self.kill_in_a_transfer(running, way, role)

    def kill_in_a_transfer(self, running, way, role):
        workers = running.prefill if role == "prefill" else running.decode
        victim = workers[0]
        rounds = until_stopped(running, victim)
        port = victim.grpc.rsplit(":", 1)[1]
        victim.kill()
        workers.remove(victim)
        running.role_environment = {}
        running.spawn_worker(role, port=port).wait_ready()
        for answers in rounds.result():
            self.same(answers)
        # The new process is a new pair.
        wait_until(lambda: self.same(running.generate(requests(1, "again"))) or pairs(running.prefill[0]) == 1,
                   "a pair with the new process")
        before = through_pairs(running.prefill[0], way)
        self.same(running.generate(requests(2, "later")), attempts=1)
        self.assertEqual(through_pairs(running.prefill[0], way), before + 2)
        running.assert_nothing_held()

    def test_a_peer_that_does_not_answer_is_left_for_grpc_and_paired_again(self):
        for way in WAYS:
            for role, point in IN_A_TRANSFER:
                with self.subTest(way=way, role=role), stopping(way, role, point) as running:
                    silent = (running.prefill if role == "prefill" else running.decode)[0]
                    other = (running.decode if role == "prefill" else running.prefill)[0]
                    rounds = until_stopped(running, silent)
                    wait_until(lambda: events(other, "aborted") == 1, "the other side to give the epoch up")
                    os.kill(silent.pid, signal.SIGCONT)
                    for answers in rounds.result():
                        self.same(answers)
                    wait_until(lambda: events(running.prefill[0], "rebuilt") == 1, "the pair to be rebuilt")
                    self.same(running.generate(requests(2, "later")))
                    running.assert_nothing_held()

    def test_workers_that_share_no_way_hand_over_by_grpc(self):
        for prefill, decode in ((NCCL, ["--kv-transport", "grpc"]), (NCCL, WAYS["cuda_ipc"]),
                                (["--kv-transport", "grpc"], WAYS["cuda_ipc"])):
            with self.subTest(prefill=prefill[1], decode=decode[1]), \
                    Cluster(prefill_flags=prefill, decode_flags=decode) as running:
                self.same(running.generate(requests(2)), attempts=1)
                metrics = running.prefill[0].metrics()
                self.assertEqual(metrics.sum("baton_kv_pushes_total", transport="grpc"), 2)
                self.assertEqual(pairs(running.prefill[0]), 0)
                warmups = running.router.metrics().sum("baton_router_pair_warmups_total")
                self.assertEqual(warmups, 0)
                running.assert_nothing_held()

    def test_another_version_of_nccl_is_refused_and_pushes_go_by_grpc(self):
        environment = {"prefill": {"BATON_FAKE_NCCL": "GetVersion:version=22907"}}
        with service(role_environment=environment) as running:
            self.same(running.generate(requests(4)), attempts=1)
            prefill = running.prefill[0]
            wait_until(lambda: events(prefill, "refused") >= 1, "the refusal")
            self.assertIn("2.29.7", prefill.tail())
            self.assertEqual(through_pairs(prefill), 0)

    def test_a_library_that_cannot_be_used_is_named(self):
        for library, environment, words in (
                ("/nonexistent/libnccl.so.2", {}, ["/nonexistent/libnccl.so.2", "--kv-transport grpc"]),
                (str(FAKE), {"BATON_FAKE_NCCL": "GetVersion:version=22703"}, ["2.27.3", "2.28.0"])):
            result = subprocess.run(
                [BIN / "baton-prefill", DEMO_MODEL, "--port", "0", "--admin-port", "0", "--threads", "1",
                 "--kv-transport", "nccl", "--nccl-library", library],
                capture_output=True, text=True, timeout=60, env={**os.environ, **environment}, check=False)
            self.assertEqual(result.returncode, 2, result.stderr)
            for word in words:
                self.assertIn(word, result.stderr)


if __name__ == "__main__":
    unittest.main()
