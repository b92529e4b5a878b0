"""The manifests are what Kubernetes, the binaries and Prometheus know; no API server is needed."""

import json
import re
import subprocess
import unittest

import yaml

import chart
import kube_schemas

ENDPOINT_PICKER = chart.ROOT / "deploy/llm-d/endpoint-picker.yaml"


def baton(*arguments):
    return subprocess.run([str(chart.BIN / "baton"), *arguments], capture_output=True, text=True,
                          timeout=60, check=False)


def metrics():
    """Of the binaries: name -> {"owners", "labels", …}."""
    return {one["name"]: one for one in json.loads(baton("metrics", "list", "--json").stdout)}


class ChartTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.sets = {name: chart.manifests(chart.render([values]))
                    for name, values in chart.VALUE_SETS.items()}

    def pods(self):
        """Every (role, pod spec) of every set, those of `helm test` left out."""
        for documents in self.sets.values():
            for role, spec in chart.pods(documents):
                if role != "test":
                    yield role, spec

    def test_helm_finds_nothing_to_object_to(self):
        for name, values in chart.VALUE_SETS.items():
            with self.subTest(name):
                result = chart.helm("lint", chart.CHART, "--strict", "--values", values,
                                    "--kube-version", chart.NEWEST_KUBERNETES)
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
                self.assertNotRegex(result.stdout, r"\[(WARNING|ERROR)\]")

    def test_manifests_are_valid_in_three_versions_of_kubernetes(self):
        self.assertEqual(len(kube_schemas.versions()), 3)
        for version in kube_schemas.versions():
            for name, values in chart.VALUE_SETS.items():
                with self.subTest(name, version=version):
                    documents = chart.manifests(chart.render([values], kubernetes=f"{version}.0"))
                    self.assertGreater(len(documents), 5)
                    wrong = [line for one in documents for line in kube_schemas.errors(one, version)]
                    self.assertEqual(wrong, [])

    def test_wrong_manifests_are_found(self):
        def wrong(change, kind):
            document = json.loads(json.dumps(next(one for one in self.sets["many-users-many-gpus"]
                                                  if one["kind"] == kind)))
            change(document)
            return kube_schemas.errors(document, kube_schemas.versions()[-1])

        def pod(document):
            return document["spec"]["template"]["spec"]

        self.assertEqual(wrong(lambda one: None, "Deployment"), [])
        self.assertRegex(wrong(lambda one: pod(one).update(terminationGrace=1), "Deployment")[0],
                         "terminationGrace")
        self.assertTrue(wrong(lambda one: pod(one)["containers"][0].pop("name"), "Deployment"))
        self.assertTrue(wrong(lambda one: one["spec"].update(replicas="3"), "Deployment"))
        self.assertTrue(wrong(lambda one: one["spec"].pop("triggers"), "ScaledObject"))
        self.assertTrue(wrong(lambda one: one["spec"].update(dnsName=["a"]), "Certificate"))
        self.assertTrue(wrong(lambda one: one["spec"].update(endpoints=[]), "PodMonitor"))
        self.assertTrue(wrong(lambda one: one.update(apiVersion="policy/v1beta1"), "PodDisruptionBudget"))

    def test_binaries_accept_every_command_line(self):
        for role, spec in self.pods():
            container = spec["containers"][0]
            self.assertEqual(container["command"], [f"baton-{role}"])
            result = baton("config", "print", role, *container["args"])
            self.assertEqual(result.returncode, 0, f"{role}: {result.stderr}")

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
        # The value sets leave nothing out that the chart can give, but for the other name of one flag.
        self.assertEqual(own - given, {"max-batched-token-mem"})
        self.assertEqual(given - extra - own, set())
        known = set(re.findall(r"--([a-z0-9-]+)", baton("flags", "list", "--markdown").stdout))
        self.assertEqual(own - known, set())

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
            "baton_num_requests_waiting", "baton_num_requests_running", "baton_kv_cache_usage_perc"})
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

    def test_monitors_choose_every_pod_once(self):
        for documents in self.sets.values():
            pods = [one["spec"]["template"]["metadata"]["labels"] for one in documents
                    if one["kind"] == "Deployment"]
            services = [one for one in documents if one["kind"] == "Service"]
            for monitor in documents:
                chosen = monitor.get("spec", {}).get("selector", {}).get("matchLabels", {}).items()
                if monitor["kind"] == "PodMonitor":
                    self.assertTrue(all(chosen <= labels.items() for labels in pods))
                elif monitor["kind"] == "ServiceMonitor":
                    behind = [one["spec"]["selector"] for one in services
                              if chosen <= one["metadata"]["labels"].items()]
                    for labels in pods:
                        self.assertEqual(sum(one.items() <= labels.items() for one in behind), 1)

    def test_selectors_choose_pods_of_their_role_only(self):
        for documents in self.sets.values():
            pods = {one["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"]:
                    one["spec"]["template"]["metadata"]["labels"]
                    for one in documents if one["kind"] == "Deployment"}
            for one in documents:
                role = one["metadata"]["labels"].get("app.kubernetes.io/component")
                selector = one.get("spec", {}).get("selector") or one.get("spec", {}).get("podSelector")
                if role is None or not selector:
                    continue
                wanted = selector.get("matchLabels", selector).items()
                self.assertEqual([name for name, labels in pods.items() if wanted <= labels.items()], [role])

    def test_routers_are_told_names_of_services(self):
        for documents in self.sets.values():
            services = {f"{one['metadata']['name']}.{one['metadata']['namespace']}.svc:{port['port']}": one
                        for one in documents if one["kind"] == "Service" for port in one["spec"]["ports"]}
            router = dict(chart.pods(documents))["router"]["containers"][0]["args"]
            told = [argument.split("=")[1] for argument in router if re.match("--(decode|prefill)-workers=", argument)]
            self.assertTrue(told)
            for name in told:
                self.assertEqual(services[name]["spec"]["clusterIP"], "None")
            test = [spec for role, spec in chart.pods(documents) if role == "test"]
            for spec in test:
                self.assertIn(spec["initContainers"][0]["args"][1], services)

    def test_probes_ask_ports_that_there_are(self):
        for _, spec in self.pods():
            container = spec["containers"][0]
            ports = {port["name"]: port["containerPort"] for port in container["ports"]}
            for name in ("grpc", "admin"):
                flag = "--port" if name == "grpc" else "--admin-port"
                self.assertIn(f"{flag}={ports[name]}", container["args"])
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                self.assertIn(container[probe]["httpGet"]["port"], ports)

    def test_time_to_end_is_enough(self):
        for _, spec in self.pods():
            container = spec["containers"][0]
            sleep = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
            drain = next(int(argument.split("=")[1].rstrip("s")) for argument in container["args"]
                         if argument.startswith("--drain-timeout="))
            self.assertGreaterEqual(spec["terminationGracePeriodSeconds"], sleep + drain + 5)

    def test_pods_may_do_little(self):
        for documents in self.sets.values():
            for _, spec in chart.pods(documents):
                self.assertFalse(spec["automountServiceAccountToken"])
                self.assertFalse(spec["enableServiceLinks"])
                self.assertEqual(spec["securityContext"]["runAsUser"], 65532)
                self.assertTrue(spec["securityContext"]["runAsNonRoot"])
                self.assertEqual(spec["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
                for container in [*spec.get("initContainers", []), *spec["containers"]]:
                    self.assertEqual(container["securityContext"], {
                        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                        "capabilities": {"drop": ["ALL"]}})

    def test_volumes_and_mounts_fit(self):
        for documents in self.sets.values():
            for _, spec in chart.pods(documents):
                volumes = [volume["name"] for volume in spec["volumes"]]
                self.assertEqual(len(volumes), len(set(volumes)))
                mounted = {mount["name"] for container in [*spec.get("initContainers", []), *spec["containers"]]
                           for mount in container["volumeMounts"]}
                self.assertEqual(mounted, set(volumes))

    def test_each_role_has_a_certificate_of_its_own(self):
        documents = self.sets["many-users-many-gpus"]
        names = {one["metadata"]["labels"]["app.kubernetes.io/component"]: one["spec"]["dnsNames"]
                 for one in documents if one["kind"] == "Certificate"}
        for role in ("router", "prefill", "decode"):
            self.assertEqual({"router", "prefill", "decode"} & set(names[role]), {role})
        self.assertFalse({"router", "prefill", "decode"} & set(names["client"]))
        secrets = {one["spec"]["secretName"] for one in documents if one["kind"] == "Certificate"}
        used = [volume["secret"]["secretName"] for _, spec in chart.pods(documents)
                for volume in spec["volumes"] if "secret" in volume]
        self.assertEqual(sorted(used), sorted(secrets))

    def test_gpus_are_as_many_as_ranks(self):
        for _, spec in self.pods():
            container = spec["containers"][0]
            limits = container["resources"].get("limits", {})
            gpus = sum(count for name, count in limits.items() if "/" in name)
            ranks = 0
            if "--device=cuda" in container["args"]:
                ranks = next(int(argument.split("=")[1]) for argument in container["args"]
                             if argument.startswith("--tensor-parallel-size="))
            self.assertEqual(gpus, ranks)

    def test_a_new_chart_alone_replaces_no_pods(self):
        for documents in self.sets.values():
            for one in documents:
                if one["kind"] == "Deployment":
                    self.assertNotIn("helm.sh/chart", one["spec"]["template"]["metadata"]["labels"])


if __name__ == "__main__":
    unittest.main()
