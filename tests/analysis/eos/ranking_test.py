"""What foretells an end: which rows count, and that the row of the end does not foretell itself."""

import unittest

import numpy as np

from synthetic_eos import LogCase, rows
from baton_analysis.eos.features import NAMES
from baton_analysis.eos.gather import STEP, gather
from baton_analysis.eos.labels import Labels
from baton_analysis.eos.log import PROB, LogReader
from baton_analysis.eos.ranking import SURVIVAL, known_outcomes, rank
from baton_analysis.eos.statistics import auroc


class RankingTest(LogCase):

    def gathered(self, *requests):
        self.log = self.written(*requests)
        return gather(LogReader([self.log]), Labels())

    def test_the_row_of_the_end_is_left_out(self):
        # EOS is at 0.01 until the very end, where it is 0.99: nothing foretells it.
        requests = [rows(str(length), [0.01] * (length - 1) + [0.99]) for length in (3, 5, 8, 40)]
        ranking = rank(self.gathered(*requests))
        self.assertEqual(ranking.scores[NAMES["now"]], [0.5, 0.5, 0.5])
        self.assertEqual(ranking.rows, 2 + 4 + 7 + 39)

        # With the row of the end taken for one before it, EOS foretells the end perfectly.
        scores, ended = [], []
        for sequence in LogReader([self.log]).sequences():
            scores.extend(sequence.rows[:, PROB])
            ended.extend(np.arange(1, sequence.length + 1) == sequence.length)
        self.assertEqual(auroc(np.array(scores), np.array(ended)), 1)

    def test_a_sign_one_row_before_the_end_is_found(self):
        requests = [rows(str(length), [0.01] * (length - 2) + [0.2, 0.9]) for length in (4, 6, 9)]
        ranking = rank(self.gathered(*requests))
        self.assertEqual(ranking.scores[NAMES["now"]][0], 1)
        self.assertEqual(ranking.ends[0], 3)

    def known(self, log, horizon):
        """Steps of the rows whose outcome is known, and of those that end."""
        labels = Labels()
        labels.read_summaries(log)
        found = gather(LogReader([log]), labels).sample.rows()
        known, ends = known_outcomes(found, horizon)
        return list(found[known, STEP]), list(found[known, STEP][ends])

    def test_rows_that_the_limit_leaves_no_room_for_are_left_out_however_they_ended(self):
        for reason, ends in (("length", []), ("stop_eos", [2])):
            log = self.written(rows("r", [0.1] * 6, reason))
            self.write_summaries(log, {"request_id": "r", "max_tokens": 6})
            self.assertEqual(self.known(log, 4), ([1, 2], ends))

    def test_without_a_known_limit_the_second_half_before_a_cut_counts_as_gone_on(self):
        log = self.written(rows("cut", [0.1] * 6, "length"))
        self.assertEqual(self.known(log, 4), ([1, 2, 3, 4], []))

    def test_rows_within_the_horizon_of_an_end_are_the_positives(self):
        found = self.gathered(rows("r", [0.1] * 6)).sample.rows()
        known, ends = known_outcomes(found, 4)
        self.assertTrue(known.all())
        self.assertEqual(list(found[ends, STEP]), [2, 3, 4, 5])

    def test_length_alone_knows_ends_that_are_always_at_the_same_length(self):
        ranking = rank(self.gathered(*(rows(str(n), [0.1] * 7) for n in range(4))))
        self.assertEqual(ranking.scores[SURVIVAL][:2], [1, 1])

    def test_a_feature_that_few_rows_have_is_not_judged(self):
        # One answer of forty has a sentence in it, right before its end: 2 rows of 361 know of one.
        requests = [rows(str(n), [0.1] * 10) for n in range(40)]
        requests[0][7]["current_token_id"] = 99
        ends = np.zeros(100, bool)
        ends[99] = True
        log = self.written(*requests)
        ranking = rank(gather(LogReader([log]), Labels(), ends))
        self.assertEqual(ranking.scores[NAMES["behind_end"]], [None] * 3)
        self.assertIsNotNone(ranking.scores[NAMES["now"]][0])
        requests = [rows(str(n), [0.1] * 10, tokens=[99] * 10) for n in range(4)]
        ranking = rank(gather(LogReader([self.written(*requests)]), Labels(), ends))
        self.assertEqual(ranking.scores[NAMES["behind_end"]][0], 0.5)

    def test_one_row_requests_have_no_rows_before_their_end(self):
        self.assertIsNone(rank(self.gathered(rows("r", [0.9]))))


if __name__ == "__main__":
    unittest.main()
