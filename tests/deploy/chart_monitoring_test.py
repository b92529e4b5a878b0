"""What the chart makes of rules and dashboards: the same, about one release, with the numbers of the values."""

import json
import pathlib
import re
import subprocess
import tempfile
import unittest

import yaml

import chart
import drains

RULES = chart.ROOT / "deploy/prometheus/rules"
DASHBOARDS = chart.ROOT / "deploy/grafana/dashboards"
FILES = chart.CHART / "files"
LABELS = 'namespace="llm",app_kubernetes_io_instance="rel"'
ON = ("monitoring.enabled=true", "monitoring.rules.enabled=true", "monitoring.dashboards.enabled=true")


def rendered(settings=(), values=()):
    return chart.manifests(chart.render(values, [*chart.LEAST, *ON, *settings]))


def rules_of(documents):
    """Name of the alert, or of the series with its objective -> rule."""
    found = {}
    for group in chart.find(documents, "PrometheusRule")["spec"]["groups"]:
        for rule in group["rules"]:
            found[rule.get("alert") or (rule["record"], rule["labels"].get("slo"))] = rule
    return found


def drain_rules(documents):
    """Role -> the rule of BatonDrainTimeout about it."""
    rules = [rule for group in chart.find(documents, "PrometheusRule")["spec"]["groups"] for rule in group["rules"]]
    return {rule["labels"].get("role"): rule for rule in rules if rule.get("alert") == "BatonDrainTimeout"}


def told(rules, tests):
    """What promtool says of rules of the chart and tests, and its exit code."""
    with tempfile.TemporaryDirectory(prefix="baton-rules-") as folder:
        (pathlib.Path(folder) / "rules.yml").write_text(yaml.safe_dump(rules))
        path = pathlib.Path(folder) / "tests.yml"
        path.write_text(yaml.safe_dump({"rule_files": ["rules.yml"], **tests}))
        result = subprocess.run(["promtool", "test", "rules", path], capture_output=True, text=True, timeout=200, check=False)
        return result.returncode, result.stdout + result.stderr


def plain():
    found = {}
    for path in RULES.glob("*.yml"):
        for rule in yaml.safe_load(path.read_text())["groups"][0]["rules"]:
            found[rule.get("alert") or (rule["record"], rule.get("labels", {}).get("slo"))] = rule
    return found


class ChartMonitoringTest(unittest.TestCase):
    def test_off_by_default(self):
        kinds = {one["kind"] for one in chart.manifests(chart.render(settings=chart.LEAST))}
        self.assertFalse({"PrometheusRule", "ConfigMap"} & kinds)

    def test_files_of_the_chart_are_those_beside_it(self):
        for folder, source in (("rules", RULES), ("dashboards", DASHBOARDS)):
            self.assertEqual({path.name: path.read_bytes() for path in (FILES / folder).iterdir()},
                             {path.name: path.read_bytes() for path in source.iterdir()})

    def test_dashboards_come_unchanged(self):
        maps = [one for one in rendered() if one["kind"] == "ConfigMap"]
        self.assertEqual(len(maps), 6)
        for one in maps:
            ((name, text),) = one["data"].items()
            self.assertEqual(text, (DASHBOARDS / name).read_text(encoding="utf-8"))
            self.assertEqual(one["metadata"]["labels"]["grafana_dashboard"], "1")
            self.assertLess(len(json.dumps(one)), 1 << 20)

    def test_rules_are_the_same_about_this_release(self):
        ours, theirs = rules_of(rendered()), plain()
        self.assertEqual(set(ours), set(theirs))
        for name, rule in ours.items():
            expression = rule["expr"]
            if name in ("BatonNoReadyRouter", "BatonNoReadyDecode"):
                # With what tells that the role is to be there, which test_roles_that_are_gone looks at.
                expression = re.sub(r"\(\n(.*)\nor 0 \* sum .*\n\)\n", r"\1\n", expression)
            if name == "BatonDrainTimeout":
                # One for each role, which test_a_drain_that_does_not_end_is_told_before_the_pod_is_killed looks at.
                expression = re.sub(r'role="[a-z]+",', "", expression)
            self.assertEqual(expression, theirs[name]["expr"].replace('job=~".*"', LABELS))
            self.assertEqual(rule["labels"]["app_kubernetes_io_instance"], "rel")
            if name != "BatonDrainTimeout":
                self.assertEqual(rule.get("for"), theirs[name].get("for"))
            self.assertEqual(rule.get("annotations"), theirs[name].get("annotations"))

    def test_roles_that_are_gone_are_told(self):
        roles = {"router": "BatonNoReadyRouter", "prefill": "BatonNoReadyPrefill", "decode": "BatonNoReadyDecode"}
        tests = {"disaggregated": [], "unified": []}
        for mode, there in (("disaggregated", roles), ("unified", ("router", "decode"))):
            for gone in (None, *there):
                series = [{"series": f'{name}{{role="{role}",model_name="m",{LABELS}{more}}}',
                           "values": "1 stale" if role == gone else "1x40"}
                          for role in there for name, more in (("baton_server_state", ',state="ready"'), ("baton_build_info", ""))]
                firing = [roles[gone]] if gone else []
                firing += ["BatonMetricsAbsent"] if gone in ("router", "decode") else []
                tests[mode].append({"name": f"{mode}, no {gone}", "interval": "1m", "input_series": series, "promql_expr_test": [{
                    "expr": 'count by (alertname) (ALERTS{alertstate="firing"})', "eval_time": "40m",
                    "exp_samples": [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in firing]}]})
        for mode, cases in tests.items():
            code, words = told(chart.find(rendered([f"mode={mode}"]), "PrometheusRule")["spec"],
                               {"evaluation_interval": "1m", "tests": cases})
            self.assertEqual(code, 0, words)

    def test_prometheus_takes_them(self):
        for name in ("many-users-many-gpus", "everything"):
            spec = chart.find(chart.manifests(chart.render([chart.VALUE_SETS[name]])), "PrometheusRule")["spec"]
            with tempfile.TemporaryDirectory(prefix="baton-rules-") as folder:
                path = pathlib.Path(folder) / "rules.yml"
                path.write_text(yaml.safe_dump(spec))
                result = subprocess.run(["promtool", "check", "rules", path], capture_output=True, text=True,
                                        timeout=60, check=False)
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_numbers_are_values(self):
        rules = rules_of(chart.manifests(chart.render([chart.VALUE_SETS["everything"]])))
        self.assertRegex(rules["BatonErrorRate"]["expr"], r"\n> 0\.005$")
        self.assertRegex(rules["BatonQueueBuildup"]["expr"], r"\n> 200$")
        self.assertNotIn("BatonApiKeyRefusals", rules)
        self.assertEqual(rules["BatonRequestLeak"]["annotations"]["runbook_url"],
                         "https://docs.example.org/runbook#batonrequestleak")
        for window in ("5m", "30m", "1h", "6h"):
            self.assertIn('le="0.75"', rules[f"baton:slo_burn:rate{window}", "ttft"]["expr"])
            self.assertIn('le="0.05"', rules[f"baton:slo_burn:rate{window}", "itl"]["expr"])
            self.assertRegex(rules[f"baton:slo_burn:rate{window}", "answered"]["expr"], r"\n/ 0\.001$")
            self.assertRegex(rules[f"baton:slo_burn:rate{window}", "ttft"]["expr"], r"\n/ 0\.05$")

    def test_a_threshold_of_two_windows_is_one_number(self):
        values = {"monitoring": {"rules": {"thresholds": {"BatonSloBurnFast": 10}}}}
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump(values, file)
            file.flush()
            expression = rules_of(rendered(values=[file.name]))["BatonSloBurnFast"]["expr"]
        self.assertEqual(re.findall(r"> (\S+)$", expression, re.M), ["10", "10"])

    def test_a_drain_that_does_not_end_is_told_before_the_pod_is_killed(self):
        for settings in ([], ["mode=disaggregated", "router.drainSeconds=600", "decode.preStopSeconds=30"],
                         ["mode=elastic", "decode.replicas=2", "decode.drainSeconds=3600"]):
            documents = rendered(settings)
            rules, pods = drain_rules(documents), dict(chart.pods(documents))
            self.assertEqual(set(rules), set(pods) - {"test"})
            for role, rule in rules.items():
                with self.subTest(settings, role=role):
                    (container,) = pods[role]["containers"]
                    (drain,) = [argument.partition("=")[2] for argument in container["args"] if "drain-timeout" in argument]
                    sleep = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
                    killed = pods[role]["terminationGracePeriodSeconds"] - sleep
                    self.assertIsNone(drains.problem(drains.seconds(drain), drains.seconds(rule["for"]), killed))

    def test_drains_that_end_are_not_told_of_and_those_that_do_not_are(self):
        # The router drains longer than workers do, and answers of all last as long as they may.
        drain_s = {"router": 600, "prefill": 60, "decode": 60}
        documents = rendered(["mode=disaggregated", *(f"{role}.drainSeconds={drain}" for role, drain in drain_s.items())])
        killed_s = {role: spec["terminationGracePeriodSeconds"] - (10 if role == "router" else 0)
                    for role, spec in chart.pods(documents) if role != "test"}
        cases = []
        for hangs in (None, *drain_s):
            # A sample each 15 s, and none behind that of the end.
            samples = {role: (killed_s[role] if role == hangs else drain + 5) // 15 for role, drain in drain_s.items()}
            cases.append({"name": f"hangs: {hangs}", "interval": "15s", "input_series": [
                {"series": f'baton_server_state{{role="{role}",model_name="m",instance="{role}",state="draining",{LABELS}}}',
                 "values": f"0x20 1x{number} stale"} for role, number in samples.items()],
                "promql_expr_test": [{
                    "expr": 'count by (role) (last_over_time(ALERTS{alertname="BatonDrainTimeout",alertstate="firing"}[1h]))',
                    "eval_time": "1h", "exp_samples": [{"labels": f'{{role="{hangs}"}}', "value": 1}] if hangs else []}]})
        code, words = told(chart.find(documents, "PrometheusRule")["spec"], {"evaluation_interval": "30s", "tests": cases})
        self.assertEqual(code, 0, words)

    def test_labels_of_ones_own_scraping(self):
        rules = rules_of(rendered(['autoscaling.selector=job="mine"']))
        self.assertIn('baton_num_requests_waiting{role="router",job="mine"}', rules["BatonQueueBuildup"]["expr"])
        # What rules record has the release's labels however it is scraped.
        self.assertIn(f"baton:request_errors:ratio_rate5m{{{LABELS}}}", rules["BatonErrorRate"]["expr"])

    def test_objectives_that_may_be_chosen_are_bounds_of_buckets(self):
        told = subprocess.run([chart.BIN / "baton", "metrics", "list", "--json"], capture_output=True, text=True,
                              timeout=60, check=True)
        buckets = {one["name"]: one["buckets"] for one in json.loads(told.stdout)}
        schema = json.loads((chart.CHART / "values.schema.json").read_text())
        slo = schema["properties"]["monitoring"]["properties"]["rules"]["properties"]["slo"]["properties"]
        self.assertLessEqual(set(slo["ttftSeconds"]["enum"]), set(buckets["baton_time_to_first_token_seconds"]))
        self.assertLessEqual(set(slo["itlSeconds"]["enum"]), set(buckets["baton_inter_token_latency_seconds"]))


if __name__ == "__main__":
    unittest.main()
