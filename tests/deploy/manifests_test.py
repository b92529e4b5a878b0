"""The manifests are what Kubernetes takes, and fit each other; no API server is needed."""

import json
import re
import unittest

import chart
import kube_schemas


def quality_of_service(spec):
    """The class that Kubernetes gives a pod; it looks at init containers, too, which have ended by then."""
    given = [container.get("resources", {}) for container in [*spec.get("initContainers", []), *spec["containers"]]]
    if not any(one.get("requests") or one.get("limits") for one in given):
        return "BestEffort"
    for one in given:
        limits = one.get("limits", {})
        requests = {**limits, **one.get("requests", {})}
        if any(name not in limits or requests[name] != limits[name] for name in ("cpu", "memory")):
            return "Burstable"
    return "Guaranteed"


class ManifestsTest(chart.RenderedSets):
    def test_manifests_are_valid_in_three_versions_of_kubernetes(self):
        self.assertEqual(len(kube_schemas.versions()), 3)
        for version in kube_schemas.versions():
            for name, values in chart.VALUE_SETS.items():
                with self.subTest(name, version=version):
                    documents = chart.manifests(chart.render([values], kubernetes=f"{version}.0"))
                    self.assertGreater(len(documents), 5)
                    wrong = [line for one in documents for line in kube_schemas.errors(one, version)]
                    self.assertEqual(wrong, [])

    def test_names_that_look_like_something_else_stay_names(self):
        for source in ("secrets", "certManager"):
            documents = chart.manifests(chart.render(
                [chart.VALUE_SETS["odd-names"]], [f"tls.source={source}"], release="123", namespace="2024"))
            wrong = [line for one in documents for line in kube_schemas.errors(one, kube_schemas.versions()[-1])]
            self.assertEqual(wrong, [])
            for one in documents:
                # Of custom resources the schemas say nothing of this.
                metadata = one["metadata"]
                self.assertIsInstance(metadata["name"], str)
                self.assertEqual(metadata["namespace"], "2024", one["kind"])
                self.assertEqual(metadata["labels"]["app.kubernetes.io/instance"], "123", one["kind"])
                self.assertEqual(metadata["labels"]["app.kubernetes.io/name"], "2024", one["kind"])
            chart.find(documents, "Service", "on")

    def test_services_have_names_of_dns(self):
        for release, settings, name in (("llm.v1", (), "llm-v1-baton"), ("rel", ("nameOverride=my.llm",), "rel-my-llm"),
                                        ("my.llm.v2", ("nameOverride=my.llm",), "my-llm-v2")):
            documents = chart.manifests(chart.render(settings=[*chart.LEAST, *settings], release=release))
            named = {one["metadata"]["name"] for one in documents if one["kind"] == "Service"}
            self.assertEqual(named, {name, f"{name}-router-headless", f"{name}-decode"})
            told = dict(chart.pods(documents))["router"]["containers"][0]["args"]
            self.assertIn(f"--decode-workers={name}-decode.llm.svc:50051", told)
            labels = chart.find(documents, "Service", name)["metadata"]["labels"]
            self.assertEqual(labels["app.kubernetes.io/instance"], release)

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
        self.assertTrue(wrong(lambda one: one["spec"]["groups"][0]["rules"][0].update(when="5m"), "PrometheusRule"))
        self.assertTrue(wrong(lambda one: one.update(apiVersion="policy/v1beta1"), "PodDisruptionBudget"))

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

    def test_http_is_at_routers_only_and_can_be_left_out(self):
        for role, spec in self.pods():
            ports = [port["name"] for port in spec["containers"][0]["ports"]]
            self.assertEqual(ports, ["grpc", "admin", "http"] if role == "router" else ["grpc", "admin"])
        without = chart.manifests(chart.render(settings=[*chart.LEAST, "ports.http=0", "networkPolicy.enabled=true"]))
        router = dict(chart.pods(without))["router"]["containers"][0]
        self.assertNotIn("--http", " ".join(router["args"]))
        named = {port["name"] for one in without if one["kind"] == "Service" for port in one["spec"]["ports"]}
        self.assertEqual(named, {"grpc", "admin"})
        self.assertNotIn("8000", json.dumps(without))

    def test_an_ingress_names_a_port_of_its_service(self):
        documents = self.sets["everything"]
        backend = chart.find(documents, "Ingress")["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]
        service = chart.find(documents, "Service", backend["name"])
        self.assertIn(backend["port"]["name"], [port["name"] for port in service["spec"]["ports"]])

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
            for name in ports:
                flag = "--port" if name == "grpc" else f"--{name}-port"
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

    def test_the_next_pod_is_known_before_the_last_one_ends(self):
        # Nothing but DNS tells routers of workers and clients of routers: what it said before is kept for 30 s.
        every = int(re.search(r"resolve_every = std::chrono::seconds\((\d+)\)",
                              (chart.ROOT / "router/router_options.h").read_text())[1])
        for name, documents in self.sets.items():
            for one in documents:
                if one["kind"] == "Deployment" and name != "everything":
                    self.assertEqual(one["spec"]["minReadySeconds"], 30 + every, one["metadata"]["name"])

    def test_a_roll_out_may_take_as_long_as_its_pods_do(self):
        def deadlines(*settings):
            documents = chart.manifests(chart.render(settings=[*chart.LEAST, *settings]))
            return [chart.find(documents, "Deployment", f"rel-baton-{role}")["spec"] for role in ("router", "decode")]

        router, decode = deadlines()
        slow_router, slow_decode = deadlines("router.minReadySeconds=1000", "decode.minReadySeconds=2000")
        self.assertEqual((slow_router["minReadySeconds"], slow_decode["minReadySeconds"]), (1000, 2000))
        self.assertEqual(slow_router["progressDeadlineSeconds"] - router["progressDeadlineSeconds"], 1000 - 35)
        self.assertEqual(slow_decode["progressDeadlineSeconds"] - decode["progressDeadlineSeconds"], 2000 - 35)
        # Kubernetes takes no less, and 0 has none of it.
        self.assertGreater(slow_decode["progressDeadlineSeconds"], 2000)
        self.assertEqual(deadlines("decode.minReadySeconds=0")[1]["minReadySeconds"], 0)

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

    def test_network_policies_let_through_who_calls_whom(self):
        def role_of(peer):
            return peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"]

        def allowed(policy, direction, side, port):
            """The roles that a policy names for calls to the gRPC port."""
            return {role_of(peer) for rule in policy["spec"][direction]
                    if {"port": port} in rule.get("ports", []) for peer in rule.get(side, [])
                    if "podSelector" in peer}

        for name, calls in (
                ("many-users-many-gpus", {("test", "router"), ("router", "prefill"), ("router", "decode"),
                                          ("prefill", "decode")}),
                ("everything", {("router", "prefill"), ("router", "decode"), ("prefill", "decode")})):
            documents = self.sets[name]
            policies = {one["metadata"]["labels"]["app.kubernetes.io/component"]: one for one in documents
                        if one["kind"] == "NetworkPolicy"}
            grpc = dict(chart.pods(documents))["router"]["containers"][0]["ports"][0]["containerPort"]
            taken = {(caller, role) for role, one in policies.items() for caller in allowed(one, "ingress", "from", grpc)}
            sent = {(role, callee) for role, one in policies.items() for callee in allowed(one, "egress", "to", grpc)}
            self.assertEqual(taken, calls, name)
            self.assertEqual(sent, {call for call in calls if call[0] != "test"}, name)
            # NCCL takes ports of its own between workers, which no rule can name.
            any_port = {role for role, one in policies.items() for rule in one["spec"]["egress"]
                        if "ports" not in rule}
            self.assertEqual(any_port, {"prefill", "decode"} if name == "everything" else set())

    def test_network_policies_let_through_who_calls_from_outside(self):
        seen = 0
        for name, documents in self.sets.items():
            outside = {port["port"] for one in documents if one["kind"] == "Service"
                       for port in one["spec"]["ports"] if one["spec"].get("type", "ClusterIP") != "ClusterIP"}
            policies = [one for one in documents if one["kind"] == "NetworkPolicy"
                        and one["metadata"]["labels"]["app.kubernetes.io/component"] == "router"]
            for policy in policies if outside else ():
                peers = policy["spec"]["ingress"][0].get("from")
                self.assertTrue(peers is None or any("ipBlock" in peer for peer in peers), name)
                seen += 1
        self.assertEqual(seen, 2)

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

    def test_every_container_says_what_it_takes(self):
        # Namespaces with a quota refuse pods of which one does not.
        for documents in self.sets.values():
            for role, spec in chart.pods(documents):
                for container in [*spec.get("initContainers", []), *spec["containers"]]:
                    where = f"{role} {container['name']}"
                    self.assertLessEqual({"cpu", "memory"}, set(container["resources"]["requests"]), where)
                    self.assertIn("memory", container["resources"]["limits"], where)

    def test_workers_on_cpus_can_have_whole_ones_of_their_own(self):
        pods = dict(chart.pods(self.sets["cpu"]))
        self.assertEqual({role: quality_of_service(spec) for role, spec in pods.items()}, {
            "router": "Burstable", "prefill": "Guaranteed", "decode": "Guaranteed", "test": "Burstable"})
        for role in ("prefill", "decode"):
            self.assertEqual([container["name"] for container in pods[role]["initContainers"]], ["download"])
            for container in [*pods[role]["initContainers"], *pods[role]["containers"]]:
                self.assertGreater(int(container["resources"]["requests"]["cpu"]), 0)

    def test_a_download_takes_what_its_role_takes_but_no_gpu(self):
        documents = chart.manifests(chart.render(settings=[
            *chart.LEAST, "model.existingClaim=", "model.download.image=fetch:1", "decode.device=cuda"]))
        decode = dict(chart.pods(documents))["decode"]
        main = dict(decode["containers"][0]["resources"]["limits"])
        self.assertEqual(main.pop("nvidia.com/gpu"), 1)
        self.assertEqual(decode["initContainers"][0]["resources"]["limits"], main)
        without = chart.manifests(chart.render(settings=[
            *chart.LEAST, "model.existingClaim=", "model.download.image=fetch:1", "decode.resources=null"]))
        self.assertNotIn("resources", dict(chart.pods(without))["decode"]["initContainers"][0])

    def test_a_new_chart_alone_replaces_no_pods(self):
        for documents in self.sets.values():
            for one in documents:
                if one["kind"] == "Deployment":
                    self.assertNotIn("helm.sh/chart", one["spec"]["template"]["metadata"]["labels"])


if __name__ == "__main__":
    unittest.main()
