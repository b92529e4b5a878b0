"""Requests out of EOS logs: grouping, ends, missing fields, refusals."""

import math
import unittest

from synthetic_eos import EOS, LogCase, interleaved, rows, vllm_rows, without
from baton_analysis.eos.log import ENTROPY, HAZARD, PROB, LogReader
from baton_analysis.errors import InputError


class LogTest(LogCase):

    def read(self, *requests, **options):
        self.reader = LogReader([self.written(*requests, **options)])
        return {sequence.request_id: sequence for sequence in self.reader.sequences()}

    def test_rows_of_requests_that_interleave_are_sorted_out(self):
        found = self.read(interleaved(rows("a", [0.1, 0.2, 0.9]), rows("b", [0.3, 0.4], "length")))
        self.assertEqual(list(found), ["b", "a"])
        self.assertEqual([list(found[name].rows[:, PROB]) for name in "ab"],
                         [[0.1, 0.2, 0.9], [0.3, 0.4]])
        self.assertEqual((found["a"].natural, found["b"].natural), (True, False))
        self.assertEqual(self.reader.gaps, 0)

    def test_answers_to_one_request_are_taken_for_themselves(self):
        path = self.written(interleaved(rows("a", [0.1, 0.2], index=0), rows("a", [0.3, 0.4, 0.5], index=1)))
        reader = LogReader([path])
        found = {sequence.name: list(sequence.rows[:, PROB]) for sequence in reader.sequences()}
        self.assertEqual(found, {"a": [0.1, 0.2], "a#1": [0.3, 0.4, 0.5]})
        self.assertEqual(reader.gaps, 0)

    def test_only_stop_eos_is_a_natural_end(self):
        reasons = ("length", "runaway", "stop_token", "stop_string", "aborted", "deadline", "error")
        found = self.read(*(rows(reason, [0.5, 0.5], reason) for reason in reasons))
        self.assertEqual([name for name, sequence in found.items() if sequence.natural], [])
        self.assertEqual([name for name, sequence in found.items() if sequence.stopped],
                         ["stop_token"])

    def test_rows_after_the_natural_end_are_cut(self):
        for policy in ("mask", "continue"):
            found = self.read(
                rows("r", [0.1, 0.8, 0.3, 0.4], "length", policy=policy, natural_end_step=2))
            self.assertEqual((found["r"].length, found["r"].natural), (2, True))
            self.assertEqual(self.reader.rows_after_end, 2)

    def test_ignoring_eos_without_a_natural_end_is_censored(self):
        found = self.read(rows("r", [0.1, 0.2], "length", policy="mask"))
        self.assertEqual((found["r"].length, found["r"].natural), (2, False))

    def test_eos_inside_an_answer_ends_it_where_the_log_has_no_natural_end_step(self):
        found = self.read(
            without(["natural_end_step"], rows("r", [0.1, 0.8, 0.3], "length", tokens=[7, EOS, 8])))
        self.assertEqual((found["r"].length, found["r"].natural), (2, True))

    def test_rows_of_the_vllm_experiment(self):
        found = self.read(vllm_rows("eos", [None, 0.25, 0.5], "eos"),
                          vllm_rows("other", [None, 0.25], "stop", tokens=[7, 8]))
        self.assertEqual((found["eos"].natural, found["other"].natural), (True, False))
        self.assertEqual(self.reader.vague_stops, 1)
        self.assertTrue(math.isnan(found["eos"].logprob[0]))
        self.assertEqual({key: self.reader.missing[key]
                          for key in ("eos_prob", "entropy")}, {"eos_prob": 2, "entropy": 5})

    def test_what_follows_from_other_fields_is_filled_in(self):
        found = self.read(without(["step", "eos_logprob"], rows("a", [0.25, 0.5])),
                          without(["eos_prob"], rows("b", [0.25, 0.5])))
        self.assertAlmostEqual(found["a"].logprob[1], math.log(0.5))
        self.assertAlmostEqual(found["b"].rows[0, PROB], 0.25)
        self.assertEqual(found["a"].length, 2)

    def test_the_logarithm_of_0_is_a_very_small_number(self):
        made = rows("r", [0.25, 0.5])
        made[0].update(eos_prob=0.0, eos_logprob=-math.inf)
        found = self.read(made)["r"]
        self.assertTrue(-110 < found.logprob[0] < -100)
        self.assertEqual(found.rows[0, PROB], 0)

    def test_a_null_leaves_its_row_aligned(self):
        made = rows("r", [0.25, 0.5])
        made[0]["eos_prob_sampling"] = None
        found = self.read(made)["r"]
        self.assertTrue(math.isnan(found.rows[0, HAZARD]))
        self.assertEqual(list(found.rows[:, ENTROPY]), [1.5, 1.5])

    def test_a_request_may_go_on_in_the_next_file(self):
        whole = rows("r", [0.1, 0.2, 0.9])
        paths = [self.written(whole[:2], name="1"), self.written(whole[2:], name="2")]
        found = list(LogReader(paths).sequences())
        self.assertEqual([(s.length, s.natural) for s in found], [(3, True)])

    def test_an_id_that_comes_again_is_another_request(self):
        self.reader = LogReader(
            [self.written(rows("r", [0.1, 0.2])[:1], rows("r", [0.1, 0.2, 0.3]))])
        self.assertEqual([(s.length, s.finish_reason) for s in self.reader.sequences()],
                         [(1, "unfinished"), (3, "stop_eos")])

    def test_a_cut_last_line_is_left_out_and_told(self):
        found = self.read(rows("r", [0.1, 0.2, 0.3], "length")[:2], tail='{"request_id":"r","st')
        self.assertEqual((found["r"].length, found["r"].finish_reason), (2, "unfinished"))
        self.assertEqual(self.reader.cut_lines, 1)

    def test_lost_rows_are_told(self):
        self.read(rows("r", [0.1, 0.2, 0.3])[1:])
        self.assertEqual(self.reader.gaps, 1)

    def test_a_line_that_is_no_row_is_refused_with_its_number(self):
        for line in ("no json\n", "[]\n", "{}\n", '{"request_id":[]}\n',
                     '{"request_id":"r","step":"x"}\n'):
            with self.assertRaisesRegex(InputError, "line 2"):
                self.read(rows("r", [0.1], "length"), tail=line)

    def test_numbers_that_no_log_has_are_refused_with_their_line(self):
        for key, value in (("step", "1000000000000"), ("step", "-1"), ("step", "Infinity"),
                           ("step", "9" * 400), ("eos_prob", "9" * 400)):
            with self.subTest(key=key, value=value[:20]):
                row = f'{{"request_id":"x","{key}":{value}}}\n'
                with self.assertRaisesRegex(InputError, "line 2.*expected"):
                    self.read(rows("r", [0.1], "length"), tail=row)

    def test_a_deeply_nested_line_is_refused(self):
        with self.assertRaisesRegex(InputError, "line 2"):
            self.read(rows("r", [0.1], "length"), tail="[" * 200_000 + "\n")

    def test_the_longest_answer_that_may_be(self):
        made = rows("r", [0.1, 0.2])
        made[1]["step"] = 2**31 - 1
        self.assertEqual(self.read(made)["r"].length, 2**31 - 1)

    def test_ends_that_are_no_numbers_of_a_log_are_none(self):
        made = without(["natural_end_step"], rows("r", [0.1, 0.2], "stop"))
        for token in ([2, 3], "2", 10**400):
            made[1]["eos_token_id"] = token
            self.assertFalse(self.read(made)["r"].natural)
        made[1]["natural_end_step"] = 10**400
        self.assertEqual(self.read(made)["r"].length, 2)

    def test_a_last_line_cut_inside_of_a_character_is_told(self):
        path = self.written(rows("r", [0.1, 0.2, 0.3], "length")[:2])
        with open(path, "ab") as file:
            file.write('{"request_id":"é'.encode()[:-1])
        reader = LogReader([path])
        self.assertEqual([s.length for s in reader.sequences()], [2])
        self.assertEqual(reader.cut_lines, 1)

    def test_a_line_that_is_not_utf8_is_refused_with_its_number(self):
        path = self.written(rows("r", [0.1], "length"))
        with open(path, "ab") as file:
            file.write(b'{"request_id":"\xff"}\n')
        with self.assertRaisesRegex(InputError, "line 2"):
            list(LogReader([path]).sequences())

    def test_too_many_open_rows_are_refused(self):
        path = self.written(rows("a", [0.1] * 5)[:4], rows("b", [0.1] * 3))
        with self.assertRaisesRegex(InputError, "2 requests with 6 rows.*at most 5 rows"):
            list(LogReader([path], open_rows_max=5).sequences())

    def test_rows_of_ended_requests_do_not_count_as_open(self):
        path = self.written(*(rows(str(n), [0.1] * 5) for n in range(10)))
        self.assertEqual(len(list(LogReader([path], open_rows_max=5).sequences())), 10)


if __name__ == "__main__":
    unittest.main()
