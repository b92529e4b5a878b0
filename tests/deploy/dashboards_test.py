"""The rules of Grafana's dashboard linter, and what Grafana needs to show a file, without Grafana."""

import json
import pathlib
import re
import subprocess
import sys
import unittest

import yaml

import dashboards

sys.path.insert(0, str(dashboards.ROOT / "deploy/monitoring"))
import table  # noqa: E402

MAKE = dashboards.ROOT / "deploy/monitoring/make"
PROVISIONING = dashboards.ROOT / "deploy/grafana/provisioning"
COMPOSE = dashboards.ROOT / "deploy/docker/compose.yaml"
SELECTOR = re.compile(r'\b((?:baton|process)_[a-z0-9_]+)\{((?:[^}"]|"[^"]*")*)\}')
WIDTH = 24
# Of Grafana's names for units, those that are taken here.
UNITS = {"short", "s", "bytes", "decmbytes", "Bps", "reqps", "percent", "percentunit", "watt"}


def labels_of(matchers):
    return dict(re.findall(r'([a-z_]+)=~?"([^"]*)"', matchers))


class DashboardsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.boards = dashboards.read()

    def every_panel(self):
        for board in self.boards.values():
            for panel in dashboards.panels(board):
                yield board, panel

    def every_target(self):
        for board, panel in self.every_panel():
            for target in panel["targets"]:
                yield board, panel, target["expr"]

    def test_they_are_as_they_are_made(self):
        result = subprocess.run([MAKE, "--check"], capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_nothing_is_divided_by_what_may_be_zero_for_a_moment(self):
        # A rate that is zero has a zero above it, too, and is told as "no traffic"; a gauge makes the result infinite.
        for board in dashboards.read().values():
            for panel in dashboards.panels(board):
                for target in panel["targets"]:
                    self.assertNotRegex(target["expr"], r"/ \w+( by \([^)]*\))? \(baton_", panel["title"])

    def test_grafana_can_take_them_from_files(self):
        self.assertEqual(len(self.boards), 6)
        for path in dashboards.FOLDER.glob("*.json"):
            board = json.loads(path.read_text(encoding="utf-8"))
            self.assertEqual(path.stem, board["uid"])
            self.assertLessEqual(len(board["uid"]), 40)
            self.assertIsNone(board["id"])
            self.assertEqual(board["schemaVersion"], 39)
            self.assertIs(board["editable"], False)
            self.assertNotIn("__inputs", board)
            self.assertTrue(board["title"] and board["description"] and board["tags"])
        self.assertEqual(len({board["title"] for board in self.boards.values()}), 6)

    def test_the_data_source_is_chosen(self):
        for uid, board in self.boards.items():
            source = dashboards.variables(board)["datasource"]
            self.assertEqual((source["type"], source["query"]), ("datasource", "prometheus"), uid)
        for _, panel in self.every_panel():
            for one in (panel, *panel["targets"]):
                self.assertEqual(one["datasource"], {"type": "prometheus", "uid": "${datasource}"})

    def test_variables_choose_by_labels_and_follow_the_time(self):
        for uid, board in self.boards.items():
            variables = dashboards.variables(board)
            names = list(variables)
            self.assertEqual(names[:6], ["datasource", "namespace", "job", "model_name", "role", "instance"], uid)
            for name in names[1:6]:
                one = variables[name]
                self.assertEqual((one["type"], one["refresh"], one["multi"], one["includeAll"]), ("query", 2, True, True))
                self.assertEqual(one["allValue"], ".*" if name == "namespace" else ".+")
                before = names[1:names.index(name)]
                self.assertEqual(re.findall(r'(\w+)=~"\$(\w+)"', one["query"]["query"]), [(by, by) for by in before])
            for name, one in variables.items():
                if one["type"] == "custom":
                    self.assertIn(one["current"]["value"], one["query"].split(","), name)
                    self.assertEqual(one["query"].split(","), [option["value"] for option in one["options"]], name)

    def test_every_panel_says_what_it_is_and_in_what_unit(self):
        for _, panel in self.every_panel():
            self.assertTrue(panel["title"])
            self.assertGreater(len(panel["description"]), 20, panel["title"])
            self.assertIn(panel["fieldConfig"]["defaults"]["unit"], UNITS, panel["title"])
            self.assertTrue(panel["targets"], panel["title"])
            names = [target["refId"] for target in panel["targets"]]
            self.assertEqual(len(names), len(set(names)))
            for name in {series for target in panel["targets"] for series, _ in SELECTOR.findall(target["expr"])}:
                self.assertIn(re.sub("_(bucket|sum|count)$", "", name), panel["description"])

    def test_titles_of_a_board_differ(self):
        for board in self.boards.values():
            titles = [panel["title"] for panel in dashboards.panels(board)]
            self.assertEqual(len(titles), len(set(titles)))

    def test_every_series_is_chosen_by_the_variables(self):
        for _, panel, expression in self.every_target():
            bare = re.sub(r'"[^"]*"', "", SELECTOR.sub("", expression))
            self.assertIsNone(re.search(r"\b(baton|process)_[a-z]", bare), bare)
            for series, matchers in SELECTOR.findall(expression):
                labels = labels_of(matchers)
                wanted = ["job", "instance", "namespace"] + ["model_name"] * series.startswith("baton_")
                self.assertEqual([labels.get(name) for name in wanted], [f"${name}" for name in wanted], panel["title"])

    def test_rates_take_the_interval_that_fits_the_scraping(self):
        for _, _, expression in self.every_target():
            spans = re.findall(r"\[([^\]]+)\]", expression)
            fixed = [span for span in spans if span not in ("$__rate_interval", "$__range")]
            # Restarts are rare, so they are counted over an hour.
            self.assertEqual(fixed, ["1h"] if "process_start_time_seconds" in expression and fixed else [])

    def test_counters_are_never_shown_bare(self):
        for _, _, expression in self.every_target():
            for found in re.finditer(r"\b((?:baton|process)_[a-z0-9_]+_(?:total|bucket|sum|count))\b", expression):
                self.assertRegex(expression[:found.start()], r"(rate|increase) ?\($", expression)

    def test_variables_that_expressions_use_exist(self):
        for board, _, expression in self.every_target():
            known = {*dashboards.variables(board), "__rate_interval", "__range"}
            self.assertEqual(set(re.findall(r"\$\{?(\w+)", expression)) - known, set(), expression)

    def test_links_lead_to_each_other(self):
        for uid, board in self.boards.items():
            self.assertEqual({link["url"] for link in board["links"]}, {f"/d/{one}" for one in self.boards if one != uid})
            for link in board["links"]:
                self.assertTrue(link["keepTime"] and link["includeVars"] and link["title"])

    def test_ids_differ_and_nothing_overlaps(self):
        for uid, board in self.boards.items():
            ids = [one["id"] for one in [*board["panels"], *(inner for one in board["panels"]
                                                            for inner in one.get("panels", []))]]
            self.assertEqual(len(ids), len(set(ids)), uid)
            # A folded row's panels come to lie below it when it is opened.
            for shown in (board["panels"], *(one["panels"] for one in board["panels"] if one.get("panels"))):
                taken = {}
                for panel in shown:
                    place = panel["gridPos"]
                    self.assertLessEqual(place["x"] + place["w"], WIDTH)
                    for x in range(place["x"], place["x"] + place["w"]):
                        for y in range(place["y"], place["y"] + place["h"]):
                            other = taken.setdefault((x, y), panel["id"])
                            self.assertEqual(other, panel["id"], f"{uid}: {panel['title']}")

    def test_tables_show_columns_that_come(self):
        for _, panel in self.every_panel():
            if panel["type"] != "table":
                continue
            named = panel["transformations"][1]["options"]["include"]["names"]
            for target in panel["targets"]:
                self.assertEqual((target["format"], target["instant"]), ("table", True))
                grouped = re.match(r"(?:time\(\) - )?\w+ by \(([^)]*)\)", target["expr"])[1].split(", ")
                values = {"Value", *(f"Value #{one['refId']}" for one in panel["targets"])}
                self.assertLessEqual({name for name in named if name not in values}, set(grouped))


class TableTest(unittest.TestCase):
    """What makes dashboards and rules refuses what the binaries do not have."""

    @classmethod
    def setUpClass(cls):
        cls.table = table.Table(table.read(), {"baton:x:ratio": ("model_name", "slo")})

    def refused(self, expression, words):
        with self.assertRaisesRegex(table.Wrong, words):
            self.table.check(expression)

    def test_unknown_names_labels_values_and_bounds_are_refused(self):
        self.refused("rate(baton_requests_total[5m])", "there is no series baton_requests_total")
        self.refused("baton_time_to_first_token_seconds", "there is no series")
        self.refused("baton_num_preemptions_total_bucket", "there is no series")
        self.refused('baton_kv_blocks{stage="free"}', "has no label stage, but state, role")
        self.refused('baton_kv_blocks{state="lost"}', "state is never lost, but free")
        self.refused('baton_kv_blocks{state=~"free|lost"}', "state is never lost")
        self.refused('baton_requests_inflight{role="decode"}', "role is never decode, but router")
        self.refused('baton_time_to_first_token_seconds_bucket{le="2.4"}', "has no bucket le=2.4")
        self.refused('baton_time_to_first_token_seconds_bucket{le="1"}', "written with a point")
        self.refused('baton:x:ratio{role="router"} + baton:y:ratio', "there is no series baton:y:ratio")

    def test_known_ones_are_taken(self):
        for expression in ('rate(baton_time_to_first_token_seconds_bucket{le="2.5",job="x"}[5m])', "process_open_fds",
                           'baton:x:ratio{slo="ttft"}',
                           'baton_end_prediction_calibration_total{bin="1.0",horizon="$horizon"}',
                           'sum by (role) (baton_kv_blocks{state=~"free|used"})'):
            self.table.check(expression)

    def test_selectors_are_added_to_every_series(self):
        def scope(owners, own):
            return [f"n={len(owners)}"] if owners is not None else []
        self.assertEqual(self.table.scoped('baton_kv_pairs / baton_kv_blocks{state="free"} + process_open_fds', scope),
                         'baton_kv_pairs{n=1} / baton_kv_blocks{state="free",n=2} + process_open_fds')


class ProvisioningTest(unittest.TestCase):
    """The files by which Grafana of compose.yaml finds data and dashboards."""

    def setUp(self):
        self.services = yaml.safe_load(COMPOSE.read_text())["services"]

    def mounted(self, source):
        (found,) = [mount["target"] for mount in self.services["grafana"]["volumes"] if mount["source"] == source]
        return found

    def test_dashboards_are_where_the_provider_looks(self):
        (provider,) = yaml.safe_load((PROVISIONING / "dashboards/baton.yml").read_text())["providers"]
        self.assertEqual(provider["type"], "file")
        self.assertEqual(provider["options"]["path"], self.mounted("../grafana/dashboards"))
        self.assertEqual(self.mounted("../grafana/provisioning"), "/etc/grafana/provisioning")

    def test_the_data_source_is_the_prometheus_beside_it(self):
        (source,) = yaml.safe_load((PROVISIONING / "datasources/prometheus.yml").read_text())["datasources"]
        host, port = re.fullmatch(r"http://([a-z]+):(\d+)", source["url"]).groups()
        self.assertIn(f"127.0.0.1:{port}:{port}", self.services[host]["ports"])
        scraping = yaml.safe_load((COMPOSE.parent / "prometheus.yml").read_text())["global"]
        self.assertEqual(source["jsonData"]["timeInterval"], scraping["scrape_interval"])

    def test_prometheus_reads_the_rules(self):
        settings = yaml.safe_load((COMPOSE.parent / "prometheus.yml").read_text())
        (pattern,) = settings["rule_files"]
        (mount,) = [one for one in self.services["prometheus"]["volumes"] if one["source"] == "../prometheus/rules"]
        self.assertEqual(str(pathlib.PurePosixPath(pattern).parent), mount["target"])
        self.assertEqual({path.suffix for path in (dashboards.ROOT / "deploy/prometheus/rules").iterdir()}, {".yml"})
        # Rules look back a week and six hours.
        (kept,) = [re.search(r"retention\.time=(\d+)d$", argument)[1] for argument in self.services["prometheus"]["command"]
                   if "retention" in argument]
        self.assertGreater(int(kept), 8)


if __name__ == "__main__":
    unittest.main()
