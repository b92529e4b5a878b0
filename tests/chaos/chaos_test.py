"""What of the chaos tool decides: what strikes, what may be tried again, what is an error."""

import collections
import json
import pathlib
import random
import sys
import tempfile
import time
import types
import unittest
from unittest import mock

import grpc

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent),
                str(pathlib.Path(__file__).resolve().parents[1] / "e2e")]
import chaos  # noqa: E402
import client  # noqa: E402
import invariants  # noqa: E402
import plan  # noqa: E402
import prompts  # noqa: E402
import retry  # noqa: E402
from eos_logs import EosLogs  # noqa: E402
from load import Finished  # noqa: E402
from slots import Life  # noqa: E402

NAMES = ["decode-0", "decode-1", "decode-2", "prefill-0", "prefill-1", "router-0", "router-1"]
ALL = plan.kinds({"sockets", "disk", "dns"})


def round_of(seed, number=0, safe=frozenset()):
    return plan.plan(seed, number, NAMES, ALL, 5, 200, safe)


class Plan(unittest.TestCase):
    def test_a_seed_is_one_sequence_of_blows(self):
        self.assertEqual(round_of(7), round_of(7))
        self.assertNotEqual(round_of(7), round_of(8))
        self.assertNotEqual(round_of(7), round_of(7, number=1))

    def test_all_kinds_strike_at_the_rate_that_was_asked_for(self):
        blows = round_of(7)
        self.assertEqual({blow.kind for blow in blows}, set(plan.WEIGHTS))
        self.assertAlmostEqual(len(blows) / 200, 5, delta=0.6)
        times = [blow.at for blow in blows]
        self.assertEqual(times, sorted(times))
        self.assertLess(len(set(times)), len(times), "several blows fall at once")

    def test_what_is_spared_is_struck_but_does_not_die(self):
        safe = plan.spared(7, 0, NAMES, 6)
        self.assertEqual({name.split("-")[0] for name in safe}, {"decode", "prefill", "router"})
        struck = [blow for blow in round_of(7, safe=safe) if blow.target in safe]
        self.assertTrue(struck)
        self.assertFalse([blow for blow in struck if blow.kind in plan.DEADLY])

    def test_without_root_no_blow_needs_it(self):
        self.assertEqual(plan.kinds(set()), ["kill", "stop", "drain"])


class FakeError:
    """A failed call with the details that the router sends."""

    def __init__(self, reason="", seconds=None):
        status = client.message("google.rpc.Status")()
        if reason:
            status.details.add().Pack(client.message("google.rpc.ErrorInfo")(reason=reason))
        if seconds is not None:
            info = client.message("google.rpc.RetryInfo")()
            info.retry_delay.seconds = seconds
            status.details.add().Pack(info)
        self._trailer = [("grpc-status-details-bin", status.SerializeToString())]

    def trailing_metadata(self):
        return self._trailer


class Retry(unittest.TestCase):
    def may(self, code, *details):
        error = FakeError(*details)
        return retry.may_retry(getattr(grpc.StatusCode, code), *retry.details_of(error))

    def test_what_passes_is_tried_again(self):
        self.assertTrue(self.may("UNAVAILABLE"))
        self.assertTrue(self.may("UNAVAILABLE", "ATTEMPTS_EXHAUSTED"))
        self.assertTrue(self.may("RESOURCE_EXHAUSTED", "QUEUE_FULL", 1))
        self.assertTrue(self.may("CANCELLED"))

    def test_what_stays_is_not(self):
        self.assertFalse(self.may("INVALID_ARGUMENT", "TOO_LONG"))
        self.assertFalse(self.may("INTERNAL", "REQUEST_KILLED_WORKERS"))
        self.assertFalse(self.may("RESOURCE_EXHAUSTED", "SLOW_CLIENT"))
        self.assertFalse(self.may("DEADLINE_EXCEEDED"))

    def test_waits_grow_to_a_bound_and_the_server_may_ask_for_more(self):
        rng = random.Random(1)
        waits = [retry.wait_before(tries, None, rng) for tries in range(1, 12)]
        self.assertLessEqual(waits[0], 0.1)
        self.assertTrue(1 <= waits[-1] <= 2, waits)
        self.assertEqual(retry.wait_before(1, 5.0, rng), 5)


def answer_of(tokens, ended=True, index=0, answer=None):
    event = client.message("baton.v1.GenerateResponse")
    if answer is None:
        answer = prompts.Answer()
        answer.add(event(started={"prompt_tokens": 3, "seed": 9}))
    for step, token in enumerate(tokens, 1):
        answer.add(event(delta={"index": index, "token_ids": [token], "text": f"{token} ", "eos_steps": [
            {"step": step, "entropy": token}]}))
    if ended:
        answer.add(event(final={"index": index, "finish_reason": 5, "usage": {"completion_tokens": len(tokens)}}))
    return answer


class Answers(unittest.TestCase):
    alone = answer_of([5, 6, 7, 8])

    def differs(self, tokens, ended=True):
        return answer_of(tokens, ended).differs(self.alone, ended)

    def test_the_same_answer_is_the_same(self):
        self.assertEqual(self.differs([5, 6, 7, 8]), "")

    def test_a_token_that_is_lost_doubled_or_different_is_seen(self):
        for tokens in ([5, 7, 8], [5, 6, 6, 7, 8], [5, 6, 7, 9], [5, 6, 7], [5, 6, 7, 8, 8]):
            self.assertIn("tokens", self.differs(tokens), tokens)

    def test_a_broken_stream_is_the_beginning_of_the_answer(self):
        self.assertEqual(self.differs([5, 6], False), "")
        self.assertEqual(self.differs([], False), "")
        self.assertIn("the beginning of", self.differs([5, 7], False))
        self.assertIn("tokens", self.differs([5, 6, 7, 8, 8], False))

    def test_figures_of_a_token_count_too(self):
        other = answer_of([5, 6, 7, 8])
        other.of(0).eos[2] = (3, *other.of(0).eos[1][1:])
        self.assertIn("EOS rows", other.differs(self.alone, True))

    def test_figures_that_come_without_a_token_count_too(self):
        other = answer_of([5, 6, 7, 8], False)
        other.add(client.message("baton.v1.GenerateResponse")(delta={"eos_steps": [{"step": 5}]}))
        self.assertIn("EOS rows", other.differs(self.alone, False))

    def test_another_end_is_seen(self):
        other = answer_of([5, 6, 7, 8])
        other.of(0).end = (1, *other.of(0).end[1:])
        self.assertIn("Final", other.differs(self.alone, True))

    def test_each_of_several_answers_is_held_against_its_own(self):
        alone = answer_of([8, 9], index=1, answer=answer_of([5, 6]))
        self.assertEqual(alone.differs(alone, True), "")
        first_ended = answer_of([5, 6])
        self.assertEqual(first_ended.differs(alone, False), "")
        self.assertIn("expected [0, 1]", first_ended.differs(alone, True))
        self.assertIn("answer 1: tokens", answer_of([9], False, 1, answer_of([5, 6])).differs(alone, False))
        self.assertIn("[0, 2]", answer_of([9], False, 2, answer_of([5, 6])).differs(alone, False))

    def test_output_after_the_end_is_refused(self):
        other = answer_of([5])
        with self.assertRaises(ValueError):
            other.add(client.message("baton.v1.GenerateResponse")(delta={"token_ids": [1]}))


class Logs(unittest.TestCase):
    """The EOS log of one router, which finished one answer of three tokens."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "router-0.jsonl"
        self.life = Life("router-0", 1, 1, began=0.0)
        self.dropped = 0
        metrics = types.SimpleNamespace(sum=lambda name: self.dropped)
        process = types.SimpleNamespace(name="router-0.1", metrics=lambda: metrics)
        slot = types.SimpleNamespace(name="router-0", lives=1, address="r", process=process)
        service = types.SimpleNamespace(of=lambda role: [slot], lives=[self.life],
                                        eos_logs={("router-0", 1): self.path})
        self.striker = types.SimpleNamespace(disk_full_times=[])
        self.failures = []
        self.logs = EosLogs(service, self.striker, self.failures.append)
        self.finished = {"x": Finished({0: [4, 5, 6]}, "r", began=9.0, ended=10.0)}

    def problem(self, steps):
        with open(self.path, "a") as log:
            for step in steps:
                row = {"request_id": "x", "step": step, "current_token_id": step + 3,
                       "is_finished": step == 3}
                log.write(json.dumps(row) + "\n")
        found = self.logs.problem(self.finished)
        self.logs.check_tokens(self.finished)
        return found

    def test_whole(self):
        self.assertEqual(self.problem([1, 2, 3]), "")
        self.assertEqual(self.failures, [])

    def test_a_row_that_lacks_is_a_problem_until_it_comes(self):
        self.assertIn("1 rows lack", self.problem([1, 2]))
        self.assertEqual(self.problem([3]), "")

    def test_a_row_twice_is_a_failure(self):
        self.problem([1, 2, 2, 3])
        self.assertIn("step 2 twice", self.failures[0])

    def test_rows_of_several_answers_are_told_apart(self):
        self.finished["x"].tokens[1] = [7]
        self.assertIn("1 rows lack", self.problem([1, 2, 3]))
        with open(self.path, "a") as log:
            log.write(json.dumps({"request_id": "x", "index": 1, "step": 1, "current_token_id": 7,
                                  "is_finished": True}) + "\n")
        self.assertEqual(self.problem([]), "")
        self.assertEqual(self.failures, [])

    def test_a_search_has_no_rows(self):
        self.finished["x"].tokens = {}
        self.assertEqual(self.problem([1]), "")
        self.assertIn("step 1 of answer 0 of x, which has 0 tokens", self.failures[0])

    def test_of_the_best_of_more_no_row_is_held_against_an_answer(self):
        self.finished["x"].tokens = None
        self.assertEqual(self.problem([1, 2]), "")
        self.assertEqual(self.failures, [])

    def test_a_wrong_token_is_a_failure(self):
        self.finished["x"].tokens[0][1] = 9
        self.problem([1, 2, 3])
        self.assertIn("another token at step 2", self.failures[0])

    def test_a_full_disk_excuses_what_was_counted(self):
        self.striker.disk_full_times.append((9.5, 9.9))
        self.dropped = 1
        self.assertEqual(self.problem([1, 2]), "")
        self.dropped = 0
        self.assertIn("1 rows lack", self.problem([]))

    def test_rows_dropped_on_a_disk_with_room_are_a_problem(self):
        self.dropped = 1
        self.assertIn("had room", self.problem([1, 2, 3]))

    def test_a_kill_excuses_what_was_just_finished(self):
        self.life.ended, self.life.killed = 10.5, True
        self.assertEqual(self.problem([1, 2]), "")
        self.life.ended = 100.0
        self.assertIn("1 rows of x lack", self.problem([]))

    def test_a_drain_excuses_nothing(self):
        self.life.ended = 10.5
        self.assertIn("1 rows of x lack", self.problem([1, 2]))


class Memory(unittest.TestCase):
    def growth(self, sizes, files=None):
        memory = invariants.Memory()
        memory.by_life = {("router-0", 1): sizes}
        memory.files = {("router-0", 1): files or [17] * len(sizes)}
        return memory.growth()

    def test_flat(self):
        self.assertEqual(self.growth([30, 31, 31.5, 31.4, 31.6, 31.5]), [])

    def test_one_that_grows_from_round_to_round_is_seen(self):
        self.assertIn("grew", self.growth([30 + 6 * i for i in range(6)])[0])

    def test_open_files_that_grow_are_seen(self):
        self.assertIn("open files", self.growth([30] * 6, [17 + 8 * i for i in range(6)])[0])


class FakeRun(chaos.Chaos):
    """A run that began long ago, of a service and clients that are not there."""

    def __init__(self, seconds, strikes, answers, *flags):  # pylint: disable=super-init-not-called
        self._options = chaos.parse([*(["--seconds", str(seconds)] if seconds else []), *flags])
        self._began = time.monotonic() - 1000
        self._strikes, self.rounds = strikes, 0
        self.failures = []
        self.struck, self.missed = collections.Counter(), collections.Counter()
        self.memory = invariants.Memory()
        tally = types.SimpleNamespace(answers=answers)
        self.load = types.SimpleNamespace(tally=tally, end=lambda: None, resume=lambda: None)
        self.service = types.SimpleNamespace(end=lambda: None)

    def round(self, number, blows_left, seconds):
        self.rounds += 1
        (self.struck if self._strikes else self.missed)["kill"] += 1
        time.sleep(seconds / 10)


class Run(unittest.TestCase):
    def failures(self, *shape):
        run = FakeRun(*shape)
        run.run()
        return run.failures

    def test_the_seconds_are_those_of_blows_whatever_the_start_took(self):
        run = FakeRun(6.1, True, 3)
        run.run()
        self.assertEqual(run.rounds, 1)
        self.assertEqual(run.failures, [])
        self.assertLess(run.seconds, 60)

    def test_a_run_without_a_round_fails(self):
        self.assertEqual(len(self.failures(1, True, 3)), 1)

    def test_a_run_whose_blows_all_missed_fails(self):
        self.assertIn("1 missed", self.failures(6.1, False, 3)[0])

    def test_a_number_of_blows_is_given_up_when_all_miss(self):
        shape = [None, False, 3, "--blows", "5", "--round-seconds", "1"]
        with mock.patch.object(chaos, "MISSES", 3):
            run = FakeRun(*shape)
            run.run()
        self.assertEqual(run.rounds, 3)
        self.assertIn("3 blows in a row missed", run.failures[0])

    def test_a_run_without_an_answer_fails(self):
        self.assertIn("no client", self.failures(6.1, True, 0)[0])


if __name__ == "__main__":
    unittest.main()
