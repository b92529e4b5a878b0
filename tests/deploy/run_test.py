"""The rendered command lines, run: the shipped binaries serve by them, answer what the probes ask, and
pass the pod of `helm test`. Only addresses, ports and folders are put in the place of a cluster's.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import urllib.error

import yaml

import chart
from prometheus_server import Prometheus

sys.path.insert(0, str(chart.ROOT / "tests/e2e"))
from cluster import BIN, DEMO_MODEL, PATIENCE_S, Failure, Process, wait_until  # noqa: E402
from tls_test import Authority  # noqa: E402

WORKER = ["mode=disaggregated", "log.format=text",
          *(f"{role}.{setting}" for role in ("prefill", "decode")
            for setting in ("threads=1", "kvCacheMemory=64MiB"))]
SCALED = ["autoscaling.prometheus=http://prometheus", "monitoring.enabled=true", "monitoring.rules.enabled=true",
          "decode.autoscaling.predictedTokensPerReplica=1000", "decode.autoscaling.queueWaitSeconds=1",
          "decode.autoscaling.tokenMs=50",
          *(f"{role}.autoscaling.enabled=true" for role in ("router", "prefill", "decode"))]
KEYS = ["router.apiKeys.secret=api-keys", "test.apiKey.secret=api-key-of-test"]
TLS = ["tls.source=certManager", "tls.certManager.issuer=ca"]


class Release:
    """What the chart renders, as processes on this machine. Use as a context manager.

    `keys` are the secrets of keys: name -> {entry: text}.
    """

    def __init__(self, settings, keys=None):
        self._keys = keys or {}
        self._documents = chart.manifests(chart.render(settings=[*chart.LEAST, *settings]))
        self._pods = dict(chart.pods(self._documents))
        self._folder = tempfile.TemporaryDirectory(prefix="baton-chart-")
        self._path = pathlib.Path(self._folder.name)
        self._certificates = self._issue()
        self.processes = {}

    def _issue(self):
        """What cert-manager would do: role -> the folder that its secret is mounted as."""
        certificates = [one for one in self._documents if one["kind"] == "Certificate"]
        if not certificates:
            return {}
        authority = Authority(self._path, "ca")
        folders = {}
        for one in certificates:
            role = one["metadata"]["labels"]["app.kubernetes.io/component"]
            files = authority.issue(role, one["spec"]["dnsNames"])
            folders[role] = self._path / f"{role}-tls"
            folders[role].mkdir()
            for kind, name in (("cert", "tls.crt"), ("key", "tls.key"), ("ca", "ca.crt")):
                (folders[role] / name).write_bytes(pathlib.Path(files[kind]).read_bytes())
        return folders

    def _here(self, role, argument):
        """An argument of a container, as it has to be on this machine."""
        name, _, value = argument.partition("=")
        if argument == "/models":
            return str(DEMO_MODEL)
        if name == "--host":
            return "--host=127.0.0.1"
        if name in ("--port", "--admin-port", "--http-port"):
            return f"{name}=0"
        if name == "--api-keys":
            return f"{name}={self._mounted_keys(role, pathlib.PurePath(value))}"
        if name in ("--decode-workers", "--prefill-workers"):
            return f"{name}={self.processes[name[2:].removesuffix('-workers')].grpc}"
        if name.startswith("--tls-") and value.startswith("/etc/baton/tls"):
            return f"{name}={self._certificates[role] / pathlib.PurePath(value).name}"
        if name == "--eos-log":
            return f"{name}={self._path / pathlib.PurePath(value.replace('$(POD_NAME)', 'pod')).name}"
        if argument.endswith("://rel-baton.llm.svc:8000"):
            # The certificate has this name, and not the address.
            port = self.processes["router"].ready["http"].rpartition(":")[2]
            return argument.replace("rel-baton.llm.svc:8000", f"localhost:{port}")
        if "rel-baton.llm.svc" in argument:
            return argument.replace("rel-baton.llm.svc:50051", self.processes["router"].grpc)
        return argument

    def _mounted_keys(self, role, path):
        """The file of the secret that the pod mounts there, as the kubelet would write it."""
        spec = self._pods[role]
        mounts = {mount["mountPath"]: mount["name"] for mount in spec["containers"][0]["volumeMounts"]}
        [secret] = [volume["secret"] for volume in spec["volumes"] if volume["name"] == mounts[str(path.parent)]]
        entries = {item["path"]: item["key"] for item in secret["items"]}
        file = self._path / path.name
        file.write_text(self._keys[secret["secretName"]][entries[path.name]])
        return file

    def _variables(self, container):
        """What a container gets from secrets."""
        wanted = {one["name"]: one["valueFrom"]["secretKeyRef"] for one in container.get("env", [])}
        return {name: self._keys[one["name"]][one["key"]] for name, one in wanted.items()}

    def command(self, role, container, certificate):
        arguments = [self._here(certificate, argument) for argument in container["args"]]
        return [BIN / container["command"][0], *arguments]

    def __enter__(self):
        try:
            for role in ("decode", "prefill", "router"):
                container = self._pods[role]["containers"][0]
                # Process sets GOMP_SPINCOUNT, the only variable that the chart gives by its value.
                self.processes[role] = Process(role, self.command(role, container, role),
                                               self._path).wait_ready()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            process.kill()
        self._folder.cleanup()

    def queries(self):
        """What KEDA is to ask Prometheus."""
        return [trigger["metadata"]["query"] for one in self._documents if one["kind"] == "ScaledObject"
                for trigger in one["spec"]["triggers"] if trigger["type"] == "prometheus"]

    def rules(self):
        """The file that the operator makes of the PrometheusRule for its Prometheus."""
        path = self._path / "rules.yml"
        path.write_text(yaml.safe_dump(chart.find(self._documents, "PrometheusRule")["spec"]))
        return path

    def probe(self, role, name):
        """The HTTP status that the kubelet would see."""
        path = self._pods[role]["containers"][0][name]["httpGet"]["path"]
        try:
            self.processes[role].get(path)
            return 200
        except urllib.error.HTTPError as error:
            return error.code

    def wait_ready(self):
        for role in self.processes:
            wait_until(lambda role=role: self.probe(role, "readinessProbe") == 200, f"{role} to be ready")

    def helm_test(self):
        """Runs the containers of the test's pod in their order; the output of the last one."""
        spec = self._pods["test"]
        for container in [*spec["initContainers"], *spec["containers"]]:
            command = self.command("test", container, "client")
            result = subprocess.run(list(map(str, command)), capture_output=True, text=True,
                                    timeout=PATIENCE_S, check=False,
                                    env={**os.environ, **self._variables(container)})
            if result.returncode != 0:
                raise Failure(f"{container['name']} exited with {result.returncode}: {result.stderr}")
        return result.stdout


def prometheus_of(release):
    """Scrapes a release's processes as the chart's PodMonitor has it done."""
    # What the operator makes of podTargetLabels.
    labels = {"namespace": chart.NAMESPACE, "app_kubernetes_io_instance": chart.RELEASE}
    return Prometheus([process.admin for process in release.processes.values()], labels, [release.rules()], job="pods")


class RunTest(unittest.TestCase):
    def serve_and_drain(self, settings, keys=None):
        with Release([*WORKER, *settings], keys) as release:
            release.wait_ready()
            for role in release.processes:
                for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                    self.assertEqual(release.probe(role, probe), 200, f"{role} {probe}")
            answer = json.loads(release.helm_test())
            self.assertEqual(answer["usage"]["completion_tokens"], 4)
            self.assertTrue(answer["workers"]["prefill"], "the prefill worker had nothing to do")
            answered = release.processes["router"].metrics().sum("baton_http_answers_total", **{"class": "2xx"})
            self.assertGreater(answered, 0, "the test asked nothing over HTTP")
            for role in ("router", "prefill", "decode"):
                self.assertEqual(release.processes[role].terminate(), 0, role)

    def test_plain_text(self):
        self.serve_and_drain(["router.eosLog.enabled=true"])

    def test_a_certificate_per_role_and_keys(self):
        self.serve_and_drain([*TLS, *KEYS], {"api-keys": {"keys": "team:secret-of-team\n"},
                                             "api-key-of-test": {"key": "secret-of-team"}})

    def test_a_wrong_key_fails_the_test_of_helm(self):
        with Release([*WORKER, *KEYS], {"api-keys": {"keys": "team:secret-of-team\n"},
                                        "api-key-of-test": {"key": "another"}}) as release:
            release.wait_ready()
            with self.assertRaisesRegex(Failure, "http exited with"):
                release.helm_test()

    def test_queries_that_scale_and_rules_find_the_release(self):
        with Release([*WORKER, *SCALED]) as release:
            release.wait_ready()
            queries = release.queries()
            self.assertEqual(len(queries), 7)
            with prometheus_of(release) as prometheus:
                for query in queries:
                    found = wait_until(lambda query=query: prometheus.ask(query), query)
                    self.assertEqual(found, [0.0], query)
                recorded = "baton:requests_unaccounted:count"
                ((labels, value),) = wait_until(lambda: prometheus.series(recorded), recorded)
                self.assertEqual(value, 0)
                self.assertEqual((labels["namespace"], labels["app_kubernetes_io_instance"]),
                                 (chart.NAMESPACE, chart.RELEASE))
                told = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
                self.assertEqual([rule for rule in told if rule["health"] == "err"], [])


if __name__ == "__main__":
    unittest.main()
