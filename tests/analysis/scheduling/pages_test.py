"""What the tables say of figures that are known."""

import json
import unittest

from baton_analysis.scheduling import figures, pages


def column(policy, predictor, mean, p99, served=True, **more):
    values = {name: [1.0, 1.0] for name in figures.FIGURES}
    values.update({"e2e_ms.mean": [mean, mean + 2], "e2e_ms.p99": [p99, p99 + 2], "ttft_ms.max": [70.0, 90.0]})
    values.update(more)
    return {"policy": policy, "predictor": predictor, "served": served, "note": "", "given": None, "figures": values}


def study(*columns, kv=(0.95, 0.97)):
    columns = [column("fcfs", "off", 100, 1000, **{"kv_use_p95": list(kv)}), *columns]
    return {"schema": "baton.scheduling_study/1", "settings": [{
        "name": "one", "title": "One", "requests": 10, "slo": "ttft=1s", "pool_tokens": 5000, "full_pool_tokens": 9000,
        "seeds": [1, 2], "capacity": [4.0, 6.0], "tuned": [{"policy": "ema", "predictor": "off", "note": "", "chosen": 2.0,
                                                           "scores": {"1": 30.0, "2": 20.0}}],
        "loads": [{"load": 0.85, "columns": columns}]
    }]}  # yapf: disable


class PagesTest(unittest.TestCase):

    def test_the_rule_names_a_policy_only_if_it_holds_wherever_the_pool_presses(self):
        good = column("remaining", "learnt", 80, 900)
        self.assertIn("presses for: remaining, learnt.", pages.rule_table(study(good)))
        tail = column("remaining", "learnt", 80, 2000)
        self.assertIn("the default stays `fcfs`", pages.rule_table(study(tail)))
        self.assertIn("✗ +99.", pages.rule_table(study(tail)))

    def test_what_is_tuned_to_another_value_elsewhere_is_the_same_policy(self):
        good, bad = (study({**column("remaining", "learnt", 80, p99), "given": given})
                     for p99, given in ((900, 0.1), (2000, 0.01)))
        found = {**good, "settings": [*good["settings"], *bad["settings"]]}
        self.assertIn("stays `fcfs`", pages.rule_table(found))
        both = {**good, "settings": 2 * good["settings"]}
        self.assertIn("presses for: remaining, learnt.", pages.rule_table(both))

    def test_who_was_not_judged_in_every_setting_does_not_hold_in_every_setting(self):
        file = study(column("remaining", "file", 80, 900))
        found = {**file, "settings": [*file["settings"], *study(column("ema", "off", 1, 1, served=False))["settings"]]}
        self.assertIn("stays `fcfs`", pages.rule_table(found))

    def test_the_rule_looks_at_past_future_with_the_same_predictor(self):
        found = study(column("past-future", "learnt", 70, 900), column("past-future", "oracle", 1, 1),
                      column("remaining", "learnt", 80, 900))
        self.assertIn("stays `fcfs`", pages.rule_table(found))
        better = study(column("past-future", "learnt", 90, 900), column("past-future", "oracle", 1, 1),
                       column("remaining", "learnt", 80, 900))
        self.assertIn("presses for: remaining, learnt.", pages.rule_table(better))

    def test_an_oracle_and_a_baseline_are_no_default(self):
        found = study(column("remaining", "oracle", 1, 1), column("ema", "off", 1, 1, served=False))
        self.assertIn("stays `fcfs`", pages.rule_table(found))

    def test_settings_whose_pool_does_not_press_are_not_judged(self):
        found = study(column("remaining", "learnt", 80, 900), kv=(0.5, 0.6))
        self.assertIn("stays `fcfs`", pages.rule_table(found))
        self.assertTrue(pages.settings_table(found).endswith("| no |"))

    def test_differences_and_waits_are_in_the_tables(self):
        setting = study(column("ema", "off", 110, 500))["settings"][0]
        self.assertIn("| ema | +9.9 ± ", pages.difference_table(setting))
        self.assertIn("| −50.0 ± ", pages.difference_table(setting))
        # The longest wait is that of all seeds, not a mean.
        self.assertIn(" | 90 | ", pages.absolute_table(setting))

    def test_the_longest_wait_is_that_of_all_seeds_at_two_loads(self):
        self.assertIn("| ema | 0.09 / 0.09 |", pages.waits_table(study(column("ema", "off", 110, 500))))

    def test_tuned_values_stand_beside_what_was_tried(self):
        self.assertIn("| one | ema | 2 | 1: 1.50, 2: 1.00 |", pages.tuned_table(study()))

    def test_compact_json_is_the_same_json(self):
        found = study(column("ema", "off", 110, 500))
        text = pages.compact(found)
        self.assertEqual(json.loads(text), found)
        self.assertLess(text.count("\n"), 60)


if __name__ == "__main__":
    unittest.main()
