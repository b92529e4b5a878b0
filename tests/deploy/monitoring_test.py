"""Every expression of dashboards, recording rules and alerts, asked of a real Prometheus that scrapes a busy service.

Each has to be understood and to find something: a panel that stays empty on a busy service is a defect.
"""

import concurrent.futures
import math
import pathlib
import re
import sys
import threading
import time
import unittest

import yaml

import dashboards
from prometheus_server import Prometheus

sys.path.insert(0, str(dashboards.ROOT / "tests/e2e"))
from cluster import BIN, Cluster, Failure, begin, wait_until  # noqa: E402
from elastic_test import ElasticCluster  # noqa: E402
from openai_client import Http  # noqa: E402

RULES = dashboards.ROOT / "deploy/prometheus/rules"
WEEK_S = 7 * 86400
# What only machines with GPUs have: their exporter is not ours, and pairs of devices need two.
OF_GPUS = {"GPU busy", "GPU memory", "GPU power"}
# Series are there, and their value needs what the load does not bring.
WITHOUT_A_NUMBER = {"Foretold tokens that were drawn", "Wait for a grant"}
THRESHOLD = re.compile(r"\s*^(<|>) [0-9.]+$", re.M)
FURTHER = re.compile(r" (<|>) [0-9.]+$", re.M)
ROUTER_FLAGS = ("--http-port", "0", "--ignore-eos", "allow", "--local-prefill-below", "16")
WORDS = ("river", "mouse", "boat", "king", "lamp", "bird", "stone", "garden")


def rules(name):
    (group,) = yaml.safe_load((RULES / name).read_text())["groups"]
    return group["rules"]


def left_sides(expression):
    """What an alert compares: the first side, and those of further conditions."""
    first, *further = re.split(r"^and (?:on \([^)]*\) )?", expression, flags=re.M)
    return [FURTHER.sub("", THRESHOLD.sub("", one)) for one in (first, *further)]


def way_of_a_request():
    """(panel, target) -> query, of the board that follows a request."""
    board = dashboards.read()["baton-disaggregation"]
    return {(panel["title"], target["refId"]): dashboards.filled(target["expr"], board, "1m", "5m")
            for panel in dashboards.panels(board) for target in panel["targets"]}


def a_week_ago():
    """Recorded series of a week before, in OpenMetrics."""
    now = int(time.time())
    lines = []
    for name, value in (("baton:generation_tokens:mean6h", 40), ("baton:length_endings:ratio_rate6h", 0.25)):
        lines.append(f"# TYPE {name} gauge")
        lines += [f'{name}{{model_name="demo"}} {value} {at}'
                  for at in range(now - WEEK_S - 600, now - WEEK_S + 1200, 60)]
    return "\n".join([*lines, "# EOF", ""])


class Load:
    """Requests of every kind, again and again, until the end of the block."""

    def __init__(self, cluster):
        self._cluster = cluster
        self._http = Http(cluster.router.ready["http"])
        self._over = threading.Event()
        self._callers = []

    def __enter__(self):
        self._callers = [begin(self._again, one) for one in (self._grpc, self._over_http)]
        return self

    def __exit__(self, *_):
        self._over.set()
        concurrent.futures.wait(self._callers)
        for caller in self._callers:
            caller.result()

    def _again(self, turn):
        number = 0
        while not self._over.is_set():
            turn(number)
            number += 1

    def _grpc(self, number):
        made = [{"messages": [{"role": "user", "content": f"Tell me a story about a {word}."}], "temperature": 0.8,
                 "seed": number, "max_tokens": limit} for word in WORDS[:4] for limit in (8, 200)]
        # It ends by itself within 30 tokens, and says where it would have when it must not.
        made += [{"messages": [{"role": "user", "content": "List 5 animals."}], "temperature": 0, "eos": policy,
                  "max_tokens": 40} for policy in ("honor", "continue", "mask")]
        self._cluster.generate(made, "--chat", concurrency=4)
        # What no cache has: long enough for a prefill worker.
        text = " ".join(WORDS[(number + i * i) % len(WORDS)] for i in range(60))
        self._cluster.generate([{"prompt": f"{number} {text}", "max_tokens": 20}])

    def _over_http(self, number):
        # Short prompts, which decode workers read themselves.
        self._over.wait(0.05)
        self._http.complete(prompt="Once", max_tokens=5, temperature=0.8, seed=number)


class Asking(unittest.TestCase):
    """A busy service, and a Prometheus that scrapes it."""

    @classmethod
    def start(cls, cluster, past=""):
        cls.cluster = cls.enterClassContext(cluster)
        targets = [process.admin for process in cls.cluster.processes()]
        cls.prometheus = cls.enterClassContext(Prometheus(targets, rules=sorted(RULES.glob("*.yml")), past=past))
        cls.enterClassContext(Load(cls.cluster))

    def wait_for(self, queries, finite=lambda name: True):
        """Asks until each of {name: query} has found something; then tells all that did not."""
        missing = dict(queries)

        def found(name, query):
            values = self.prometheus.ask(query)
            return any(map(math.isfinite, values)) if finite(name) else bool(values)

        def all_found():
            for name, query in list(missing.items()):
                if not found(name, query):
                    return False
                del missing[name]
            return True

        try:
            wait_until(all_found, "every query to find something")
        except Failure:
            missing = {name: query for name, query in missing.items() if not found(name, query)}
            self.fail("no data for\n" + "\n".join(f"{name}: {query}" for name, query in missing.items()))


class MonitoringTest(Asking):
    @classmethod
    def setUpClass(cls):
        cls.start(Cluster(router_flags=ROUTER_FLAGS), past=a_week_ago())

    def test_every_panel_shows_something(self):
        queries = {}
        for uid, dashboard in dashboards.read().items():
            for panel in dashboards.panels(dashboard):
                for target in panel["targets"]:
                    if panel["title"] in OF_GPUS:
                        self.prometheus.ask(target["expr"])
                        continue
                    queries[uid, panel["title"], target["refId"]] = dashboards.filled(target["expr"], dashboard, "1m", "5m")
        self.assertGreater(len(queries), 100)
        self.wait_for(queries, finite=lambda name: name[1] not in WITHOUT_A_NUMBER)

    def test_every_variable_has_something_to_choose(self):
        for dashboard in dashboards.read().values():
            for name, variable in dashboards.variables(dashboard).items():
                if variable["type"] != "query":
                    continue
                query = dashboards.filled(variable["query"]["query"], dashboard, "1m", "5m")
                series, label = re.fullmatch(r"label_values\((.+), (\w+)\)", query).groups()
                self.assertEqual(label, name)
                wait_until(lambda series=series: self.prometheus.ask(series), series)
                values = self.prometheus.get(f"label/{label}/values", **{"match[]": series})
                # There is no namespace here, and the boards show everything all the same.
                self.assertEqual(bool(values), name != "namespace", name)

    def test_every_recording_rule_records_a_number(self):
        self.wait_for({str(rule): rule["record"] + "".join(
            f'{{{label}="{value}"}}' for label, value in rule.get("labels", {}).items())
            for rule in rules("recording.yml")})

    def test_the_left_side_of_every_alert_finds_something(self):
        queries = {(rule["alert"], number): side for rule in rules("alerts.yml")
                   for number, side in enumerate(left_sides(rule["expr"]))}
        self.assertGreater(len(queries), 30)
        for query in queries.values():
            self.assertIsNone(THRESHOLD.search(query), query)
        self.wait_for(queries)
        for rule in rules("alerts.yml"):
            named = set(re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values())))
            for labels, _ in self.prometheus.series(queries[rule["alert"], 0]):
                self.assertLessEqual(named, set(labels), rule["alert"])

    def test_prometheus_evaluates_all_rules_without_an_error(self):
        def evaluated():
            told = [rule for group in self.prometheus.get("rules")["groups"] for rule in group["rules"]]
            return told if all(rule["health"] != "unknown" for rule in told) else None

        told = wait_until(evaluated, "all rules to be evaluated")
        self.assertEqual(len(told), len(rules("recording.yml")) + len(rules("alerts.yml")))
        self.assertEqual([rule["lastError"] for rule in told if rule["health"] != "ok"], [])


class ElasticMonitoringTest(Asking):
    """All workers have the role decode here, and send KV caches as well as receive them."""

    @classmethod
    def setUpClass(cls):
        cls.start(ElasticCluster(flags=("--elastic",), router_flags=ROUTER_FLAGS))

    def test_every_panel_of_a_requests_way_shows_something(self):
        self.wait_for(way_of_a_request(), finite=lambda name: name[0] not in WITHOUT_A_NUMBER)

    def test_handoffs_are_counted(self):
        self.wait_for({"share that failed": "baton:handoff_failures:ratio_rate5m"})


class UnifiedMonitoringTest(Asking):
    """There are no prefill workers, and nothing is handed over."""

    @classmethod
    def setUpClass(cls):
        cls.start(Cluster(prefill=0, router_flags=ROUTER_FLAGS))

    def test_lines_of_workers_that_read_prompts_are_shown(self):
        of_prompts = {"Where requests are", "What a first token waits for", "Line at workers that read prompts"}
        asked = {name: query for name, query in way_of_a_request().items() if name[0] in of_prompts}
        self.assertEqual({title for title, _ in asked}, of_prompts)
        self.wait_for(asked)


if __name__ == "__main__":
    if not (BIN / "baton").exists():
        sys.exit(f"there is no {pathlib.Path(BIN) / 'baton'}; build it, or set BATON_BIN")
    unittest.main()
