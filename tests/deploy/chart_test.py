"""The chart says what helm, the binaries and its own values know."""

import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import yaml

import chart

ENDPOINT_PICKER = chart.ROOT / "deploy/llm-d/endpoint-picker.yaml"


def baton(*arguments):
    return subprocess.run([str(chart.BIN / "baton"), *arguments], capture_output=True, text=True,
                          timeout=60, check=False)


def properties(schema, definitions):
    """Of an object of the values' schema: {name: the same of what it holds}; {} for what is no such object."""
    schema = definitions[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    return {name: properties(one, definitions) for name, one in schema.get("properties", {}).items()}


def metrics():
    """Of the binaries: name -> {"owners", "labels", …}."""
    return {one["name"]: one for one in json.loads(baton("metrics", "list", "--json").stdout)}


class ChartTest(chart.RenderedSets):
    def test_helm_finds_nothing_to_object_to(self):
        for name, values in chart.VALUE_SETS.items():
            with self.subTest(name):
                result = chart.helm("lint", chart.CHART, "--strict", "--values", values,
                                    "--kube-version", chart.NEWEST_KUBERNETES)
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
                self.assertNotRegex(result.stdout, r"\[(WARNING|ERROR)\]")

    def test_schema_and_values_have_the_same_names(self):
        def compare(fixed, values, where):
            self.assertEqual(set(fixed), set(values), where)
            for name, inner in fixed.items():
                if inner and where + name not in ("router.resources", "prefill.resources", "decode.resources"):
                    compare(inner, values[name], f"{where}{name}.")

        schema = json.loads((chart.CHART / "values.schema.json").read_text())
        compare(properties(schema, schema["definitions"]),
                yaml.safe_load((chart.CHART / "values.yaml").read_text()), "")

    def test_every_value_is_used(self):
        def leaves(fixed):
            return {leaf for name, inner in fixed.items() for leaf in (leaves(inner) if inner else [name])}

        schema = json.loads((chart.CHART / "values.schema.json").read_text())
        text = "".join(path.read_text() for path in (chart.CHART / "templates").rglob("*") if path.is_file())
        unused = {name for name in leaves(properties(schema, schema["definitions"]))
                  if not re.search(rf"\b{name}\b", text)}
        self.assertEqual(unused, {"global"})

    def test_a_chart_that_has_it_as_a_part_can_leave_it_out(self):
        with tempfile.TemporaryDirectory(prefix="baton-parent-") as folder:
            parent = pathlib.Path(folder)
            version = yaml.safe_load((chart.CHART / "Chart.yaml").read_text())["version"]
            (parent / "Chart.yaml").write_text(yaml.safe_dump({
                "apiVersion": "v2", "name": "parent", "version": "1.0.0",
                "dependencies": [{"name": "baton", "version": version, "condition": "baton.enabled"}]}))
            shutil.copytree(chart.CHART, parent / "charts/baton")
            part = [f"baton.{one}" for one in chart.LEAST]
            for enabled, there in ((["baton.enabled=true"], True), ([], True), (["baton.enabled=false"], False)):
                result = chart.template(settings=[*part, *enabled, "global.team=search"], chart=parent)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual("kind: Deployment" in result.stdout, there, enabled)

    def test_the_chart_is_of_the_version_of_the_binaries(self):
        self.assertEqual(yaml.safe_load((chart.CHART / "Chart.yaml").read_text())["appVersion"],
                         json.loads(baton("version", "--json").stdout)["version"])

    def test_binaries_accept_every_command_line(self):
        for role, spec in self.pods():
            container = spec["containers"][0]
            self.assertEqual(container["command"], [f"baton-{role}"])
            result = baton("config", "print", role, *container["args"])
            self.assertEqual(result.returncode, 0, f"{role}: {result.stderr}")

    def test_elastic_workers_are_of_both_roles(self):
        documents = chart.manifests(chart.render(settings=(
            *chart.LEAST, "mode=elastic", "decode.replicas=3", "networkPolicy.enabled=true", "tls.source=certManager",
            "tls.certManager.issuer=ca")))
        arguments = {role: spec["containers"][0]["args"] for role, spec in chart.pods(documents) if role != "test"}
        self.assertEqual(set(arguments), {"router", "decode"})
        for role, given in arguments.items():
            result = baton("config", "print", role, *given)
            self.assertEqual(result.returncode, 0, f"{role}: {result.stderr}")
        self.assertIn("--elastic", arguments["decode"])
        lists = {name: value for name, _, value in (one.partition("=") for one in arguments["router"])
                 if name.endswith("-workers")}
        self.assertEqual(lists["--prefill-workers"], lists["--decode-workers"])
        certificate = chart.find(documents, "Certificate", "rel-baton-decode")["spec"]
        self.assertEqual(certificate["dnsNames"], ["decode", "prefill"])
        self.assertIn("client auth", certificate["usages"])
        policy = chart.find(documents, "NetworkPolicy", "rel-baton-decode")["spec"]
        peers = lambda rules, key: {
            peer["podSelector"]["matchLabels"].get("app.kubernetes.io/component")
            for rule in rules for peer in rule.get(key, ()) if rule["ports"][0]["port"] == 50051}
        self.assertEqual(peers(policy["ingress"], "from"), {"router", "decode"})
        self.assertEqual(peers(policy["egress"], "to"), {"decode"})

    def test_flags_that_extra_arguments_must_not_give_are_those_of_the_chart(self):
        given = {argument.split("=")[0].removeprefix("--").removeprefix("no-")
                 for _, spec in self.pods() for argument in spec["containers"][0]["args"]
                 if argument.startswith("--")}
        extra = {argument.split("=")[0].removeprefix("--").removeprefix("no-")
                 for path in chart.VALUE_SETS.values()
                 for role in ("router", "prefill", "decode")
                 for argument in yaml.safe_load(path.read_text()).get(role, {}).get("extraArgs", [])}
        text = (chart.CHART / "templates/_checks.tpl").read_text()
        own = set(re.search(r'define "baton.ownflags" -}}\n(.*)\n', text)[1].split())
        # The value sets leave nothing out that the chart can give, but for the other name of one flag and what
        # mode elastic gives.
        self.assertEqual(own - given, {"max-batched-token-mem", "elastic"})
        self.assertEqual(given - extra - own, set())
        known = set(re.findall(r"--([a-z0-9-]+)", baton("flags", "list", "--markdown").stdout))
        self.assertEqual(own - known, set())

    def test_of_elastic_workers_those_that_decode_say_whether_more_are_needed(self):
        # The number of replicas is the autoscaler's.
        scaling = ("decode.replicas=1", "decode.autoscaling.enabled=true", "decode.autoscaling.minReplicas=2",
                   "decode.autoscaling.tokenMs=40", "monitoring.enabled=true", "autoscaling.prometheus=http://p")
        queries = {}
        for mode in ("elastic", "disaggregated"):
            documents = chart.manifests(chart.render(settings=(*chart.LEAST, f"mode={mode}", *scaling)))
            triggers = chart.find(documents, "ScaledObject", "rel-baton-decode")["spec"]["triggers"]
            queries[mode] = [one["metadata"]["query"] for one in triggers]
        kv, steps = queries["elastic"][1:3]
        labels = 'namespace="llm",app_kubernetes_io_instance="rel"'
        decode = f'and on (instance) baton_worker_takes{{{labels},work="decode"}} == 1'
        self.assertEqual(kv, f'avg(baton_kv_cache_usage_perc{{{labels},role="decode"}} {decode})')
        self.assertEqual(steps, f'1000 * avg(baton_decode_step_seconds{{{labels},role="decode"}} {decode})')
        self.assertNotIn("baton_worker_takes", " ".join(queries["disaggregated"]))
        self.assertNotIn("baton_worker_takes", queries["elastic"][0])

    def test_metrics_that_scale_exist(self):
        known = metrics()
        asked = []
        for documents in self.sets.values():
            for one in documents:
                if one["kind"] == "ScaledObject":
                    asked += re.findall(r"(baton_\w+)\{[^}]*role=\"(\w+)\"", json.dumps(one).replace('\\"', '"'))
                elif one["kind"] == "HorizontalPodAutoscaler":
                    role = one["metadata"]["labels"]["app.kubernetes.io/component"]
                    for metric in one["spec"]["metrics"]:
                        if metric["type"] == "Pods":
                            asked.append((metric["pods"]["metric"]["name"], role))
                        elif metric["type"] == "External":
                            external = metric["external"]["metric"]
                            asked.append((external["name"], external["selector"]["matchLabels"]["role"]))
        self.assertEqual({name for name, _ in asked}, {
            "baton_num_requests_waiting", "baton_num_requests_running", "baton_kv_cache_usage_perc",
            "baton_predicted_remaining_tokens", "baton_queue_oldest_wait_seconds", "baton_decode_step_seconds"})
        for name, role in asked:
            self.assertIn(role, known[name]["owners"], name)
            self.assertEqual(known[name]["type"], "gauge", name)

    def test_the_endpoint_picker_reads_metrics_of_workers(self):
        config = yaml.safe_load(ENDPOINT_PICKER.read_text())["parameters"]["engineConfigs"][0]
        labels = [one["spec"]["template"]["metadata"]["labels"] for documents in self.sets.values()
                  for one in documents if one["kind"] == "Deployment"]
        engines = {label["llm-d.ai/engine-type"] for label in labels if "llm-d.ai/role" in label}
        self.assertEqual(engines, {config["name"]})
        known = metrics()
        for key in ("queuedRequestsSpec", "runningRequestsSpec", "kvUsageSpec", "cacheInfoSpec"):
            self.assertLessEqual({"prefill", "decode"}, set(known[config[key]]["owners"]), key)

    def test_pages_name_objects_that_there_are(self):
        documents = chart.manifests(chart.render(settings=[*chart.LEAST, "mode=disaggregated"]))
        named = {(one["kind"], one["metadata"]["name"]) for one in documents}
        hosts, deployments = set(), set()
        for page in (chart.ROOT / "docs").glob("*.md"):
            text = page.read_text()
            deployments |= set(re.findall(r"deployment/(RELEASE-baton[A-Za-z-]*)", text))
            hosts |= set(re.findall(r"(?:`|//)(RELEASE-baton[a-z-]*)", text))
        self.assertLessEqual({("Service", one.replace("RELEASE", chart.RELEASE)) for one in hosts}, named)
        self.assertLessEqual({("Deployment", one.replace("RELEASE", chart.RELEASE).replace("ROLE", role))
                              for one in deployments for role in ("router", "prefill", "decode")}, named)
        self.assertTrue(hosts and deployments)

    def test_the_page_shows_a_call_that_works(self):
        page = (chart.ROOT / "docs/deploy-kubernetes.md").read_text()
        settings = re.findall(r"--set (\S+)", page.split("helm install")[1].split("```")[0])
        self.assertEqual(len(settings), 5)
        chart.render(settings=settings)
        for example in re.findall(r"`([a-z-]+)\.yaml`", page):
            self.assertIn(example, chart.VALUE_SETS)


if __name__ == "__main__":
    unittest.main()
