"""compose.yaml against the schema of the compose specification, and against the tree. image_test.py runs it."""

import re
import unittest

import yaml

import packages
import schemas

COMPOSE = packages.DOCKER / "compose.yaml"
CHART = packages.ROOT / "deploy/helm/baton"


def read():
    return yaml.safe_load(COMPOSE.read_text())


def ours(services):
    return {name: service for name, service in services.items() if "BATON_IMAGE" in service["image"]}


def in_order(services):
    """Names of services, each behind those that it depends on."""
    line = []
    while len(line) < len(services):
        ready = [name for name, service in services.items()
                 if name not in line and set(service.get("depends_on", {})) <= set(line)]
        if not ready:
            raise AssertionError(f"services wait for each other: {sorted(set(services) - set(line))}")
        line += ready
    return line


class FileTest(unittest.TestCase):
    def setUp(self):
        self.compose = read()
        self.services = self.compose["services"]

    @unittest.skipUnless(schemas.FOLDER.exists(), schemas.MISSING)
    def test_it_is_of_the_compose_specification(self):
        self.assertEqual(schemas.errors(self.compose, "compose-spec.json"), [])
        self.services["router"]["depend_on"] = {}
        self.assertEqual(len(schemas.errors(self.compose, "compose-spec.json")), 1)

    def test_what_it_mounts_from_the_tree_is_there(self):
        if not (packages.ROOT / "deploy/grafana").exists():
            self.skipTest("SKIPPED: deploy/grafana is not there; expected dashboards and their provisioning")
        for name, service in self.services.items():
            for mount in service.get("volumes", []):
                if mount["type"] == "bind":
                    self.assertTrue((packages.DOCKER / mount["source"]).exists(), f"{name}: {mount['source']}")
                    self.assertTrue(mount["read_only"], f"{name}: {mount['source']}")
                else:
                    self.assertIn(mount["source"], self.compose["volumes"], name)
        built = self.services["decode"]["build"]
        self.assertEqual((packages.DOCKER / built["context"] / built["dockerfile"]).resolve(),
                         packages.DOCKER / "Dockerfile")

    def test_nobody_is_root_or_writes_where_nothing_is_mounted(self):
        for name, service in self.services.items():
            with self.subTest(name):
                self.assertNotEqual(service["user"].partition(":")[0], "0")
                self.assertIs(service["read_only"], True)
                self.assertEqual(service["cap_drop"], ["ALL"])
                self.assertIn("no-new-privileges:true", service["security_opt"])
                for port in service.get("ports", []):
                    self.assertRegex(port, r"^127\.0\.0\.1:")
                self.assertRegex(service["image"], r":v?\d+\.\d+\.\d+|\$\{BATON_IMAGE")

    def test_the_image_is_what_the_chart_expects(self):
        dockerfile = (packages.DOCKER / "Dockerfile").read_text()
        ports = yaml.safe_load((CHART / "values.yaml").read_text())["ports"]
        self.assertIn(f"\nEXPOSE {ports['grpc']} {ports['admin']} {ports['http']}\n", dockerfile)
        self.assertIn(f"BATON_PORT={ports['grpc']} ", dockerfile)
        pod = (CHART / "templates/_pod.tpl").read_text()
        user = re.search(r"runAsUser: (\d+)\n", pod)[1]
        self.assertEqual(set(re.findall(r"^USER (.+)$", dockerfile, re.M)), {f"{user}:{user}"})
        for folder in ("/var/cache/baton", "/var/lib/baton"):
            self.assertIn(f"mountPath: {folder}", pod)
            self.assertIn(f'"$out{folder}"', (packages.DOCKER / "make_rootfs").read_text())

    def test_who_waits_for_somebody_can_be_told(self):
        for name, service in self.services.items():
            for other, how in service.get("depends_on", {}).items():
                self.assertEqual(how, {"condition": "service_healthy"}, name)
                check = self.services[other].get("healthcheck")
                self.assertTrue(check or other in ours(self.services), f"{other} has no health check")
        self.assertEqual(len(in_order(self.services)), len(self.services))

    def test_running_answers_have_time_to_end(self):
        for name, service in ours(self.services).items():
            for argument in service["command"]:
                if argument.startswith("--drain-timeout="):
                    drain = int(re.search(r"=(\d+)s$", argument)[1])
                    self.assertGreater(int(service["stop_grace_period"].removesuffix("s")), drain + 5, name)

    def test_prometheus_scrapes_the_roles(self):
        path = packages.DOCKER / "prometheus.yml"
        packages.call("promtool", "check", "config", "--syntax-only", path)
        (job,) = yaml.safe_load(path.read_text())["scrape_configs"]
        (found,) = job["dns_sd_configs"]
        self.assertEqual(sorted(found["names"]), ["decode", "prefill", "router"])
        self.assertIn(f"BATON_ADMIN_PORT={found['port']}", (packages.DOCKER / "Dockerfile").read_text())
        targets = {mount["target"] for mount in self.services["prometheus"]["volumes"]}
        self.assertLessEqual({"/etc/prometheus/prometheus.yml", "/etc/prometheus/rules", "/prometheus"}, targets)


if __name__ == "__main__":
    unittest.main()
