"""Mutual TLS between all processes and their clients. Each certificate names its role."""

import json
import pathlib
import re
import shlex
import subprocess
import tempfile
import unittest

import grpc

import client
from cluster import BIN, DEMO_MODEL, ROOT, Cluster, Process, wait_until
from elastic_test import ElasticCluster

REQUEST = {"prompt": "Once upon a time", "max_tokens": 12, "eos": "mask", "seed": 3}


class Authority:
    """Makes certificates in a folder."""

    def __init__(self, folder, name):
        self.folder, self.name = pathlib.Path(folder), name
        self.ca, self._ca_key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        self._openssl("req", "-x509", *self._new_key(self._ca_key), "-days", "2", "-subj", f"/CN={name}",
                      "-out", self.ca)

    @staticmethod
    def _new_key(path):
        return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", path]

    @staticmethod
    def _openssl(*arguments):
        subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, timeout=30)

    def issue(self, name, roles):
        """The files of a certificate for `roles`: {"cert", "key", "ca"}."""
        stem = self.folder / f"{self.name}-{name}"
        files = {"cert": f"{stem}.pem", "key": f"{stem}.key", "ca": str(self.ca)}
        extension = pathlib.Path(f"{stem}.ext")
        extension.write_text("subjectAltName=" + ",".join(f"DNS:{role}" for role in roles))
        self._openssl("req", *self._new_key(files["key"]), "-subj", f"/CN={name}", "-out", f"{stem}.csr")
        self._openssl("x509", "-req", "-in", f"{stem}.csr", "-CA", self.ca, "-CAkey", self._ca_key,
                      "-CAcreateserial", "-days", "2", "-extfile", extension, "-out", files["cert"])
        return files


def flags(files):
    return [part for kind, path in files.items() for part in (f"--tls-{kind}", path)]


def secure(address, files, role="router"):
    """A client of our own protocol that shows the certificate `files` and expects `role`."""
    read = lambda kind: pathlib.Path(files[kind]).read_bytes()
    credentials = grpc.ssl_channel_credentials(read("ca"), read("key"), read("cert"))
    return client.Client(address, credentials, [("grpc.ssl_target_name_override", role)])


def run(*arguments, text=None):
    return subprocess.run([str(BIN / "baton"), *map(str, arguments)], input=text, capture_output=True,
                          text=True, timeout=60, check=False)


class TlsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="baton-tls-")
        cls.ours = Authority(cls.folder.name, "ours")
        cls.foreign = Authority(cls.folder.name, "foreign")
        cls.files = {role: cls.ours.issue(role, [role]) for role in ("router", "prefill", "decode", "client")}
        cls.stranger = cls.foreign.issue("client", ["client", "router"])
        cls.cluster = cls.start()
        cls.cluster.__enter__()

    @classmethod
    def start(cls, router="router"):
        return Cluster(prefill_flags=flags(cls.files["prefill"]), decode_flags=flags(cls.files["decode"]),
                       router_flags=flags(cls.files[router]))

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__(None, None, None)
        cls.folder.cleanup()

    def tearDown(self):
        """Whatever was refused, the service goes on."""
        answer = self.cluster.generate([REQUEST], *flags(self.files["client"]))[0]
        self.assertEqual(len(answer["token_ids"]), 12)
        self.assertTrue(answer["workers"]["prefill"], "the KV cache went over TLS too")
        self.assertEqual(answer["attempts"], 1)
        self.cluster.assert_nothing_held()

    def generate(self, files):
        """The one failed outcome of `baton generate`."""
        result = run("generate", "--server", self.cluster.router.grpc, "--prompts", "-", "--json", "--timeout",
                     "5s", *flags(files), text=json.dumps(REQUEST))
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        return json.loads(result.stdout)["error"]

    def test_an_elastic_worker_shows_the_certificate_of_both_roles(self):
        both = self.ours.issue("elastic", ["decode", "prefill"])
        with ElasticCluster(2, ("--elastic", *flags(both)), flags(self.files["router"])) as cluster:
            wait_until(lambda: cluster.taking("prefill"), "one worker to take prompts")
            answer = cluster.generate([REQUEST], *flags(self.files["client"]))[0]
            self.assertEqual(len(answer["token_ids"]), 12)
            self.assertTrue(answer["workers"]["prefill"], "one handed the prompt to the other")
        for role in ("decode", "prefill"):
            result = subprocess.run([BIN / "baton-decode", DEMO_MODEL, "--elastic", "--port", "0", "--admin-port", "0",
                                     *flags(self.files[role])], capture_output=True, text=True, timeout=30, check=False)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn("prefill" if role == "decode" else "decode", result.stderr)

    def test_clients_in_the_clear_are_refused(self):
        self.assertIn(self.generate({})["code"], ("UNAVAILABLE", "DEADLINE_EXCEEDED"))
        plain = client.Client(self.cluster.decode[0].grpc)
        with self.assertRaises(grpc.RpcError) as caught:
            plain.unary("baton.v1.ModelService/GetModelInfo", {}, timeout_s=5)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAVAILABLE)
        plain.close()

    def test_a_foreign_authority_is_refused_on_either_side(self):
        error = self.generate(self.stranger)
        self.assertEqual(error["code"], "UNAVAILABLE")
        self.assertIn("certificate verify failed", error["message"].lower().replace("_", " "))
        mixed = {**self.stranger, "ca": self.files["client"]["ca"]}
        self.assertEqual(self.generate(mixed)["code"], "UNAVAILABLE", "the router trusts another CA")

    def test_only_a_router_may_open_decode_and_only_a_prefill_worker_may_push(self):
        address = self.cluster.decode[0].grpc
        for role, method, what in [("client", "DecodeService/Decode", "router"),
                                   ("router", "KvTransferService/Push", "prefill")]:
            caller = secure(address, self.files[role], "decode")
            with self.assertRaises(grpc.RpcError) as caught:
                caller.exchange(f"baton.worker.v1.{method}", [{}])
            self.assertEqual(caught.exception.code(), grpc.StatusCode.PERMISSION_DENIED, method)
            self.assertIn(f"'{what}'", caught.exception.details())
            caller.close()

    def test_a_role_is_no_client(self):
        for role in ("router", "prefill", "decode"):
            caller = secure(self.cluster.router.grpc, self.files[role])
            with self.assertRaises(grpc.RpcError) as caught:
                list(caller.generate({"text": "x"}))
            self.assertEqual(caught.exception.code(), grpc.StatusCode.PERMISSION_DENIED, role)
            self.assertIn(f"'{role}'", caught.exception.details())
            caller.close()

    def test_a_router_of_another_authority_gets_no_worker_and_says_why(self):
        kept = self.cluster.router_flags
        self.cluster.router_flags = flags(self.stranger)
        router = self.cluster.spawn_router("outsider").wait_ready()
        self.cluster.router_flags = kept
        try:
            for worker in (self.cluster.decode[0], self.cluster.prefill[0]):
                wait_until(lambda w=worker: f"{w.grpc} does not answer" in router.log.read_text(),
                           "a log line that names the worker")
            self.assertIn("handshake failed", router.log.read_text())
            # gRPC has something to say of that as well, and says it where all is said.
            for process in (router, self.cluster.router, *self.cluster.decode, *self.cluster.prefill):
                for line in process.log.read_text().splitlines():
                    self.assertRegex(line, r"^\d{4}-\d\d-\d\d \S+ [TDIWEC] ", process.name)
            self.assertEqual(self.cluster._status(router, "/readyz"), 503)
        finally:
            self.assertEqual(router.terminate(), 0, router.tail())

    def test_clients_without_a_certificate_are_served_where_none_is_demanded(self):
        authority = {"ca": self.files["client"]["ca"]}
        self.assertEqual(self.generate(authority)["code"], "UNAVAILABLE")
        kept = self.cluster.router_flags
        self.cluster.router_flags = [*kept, "--tls-client-certs", "optional"]
        router = self.cluster.spawn_router("open").wait_ready()
        self.cluster.router_flags = kept
        try:
            self.cluster.wait_routable(router)
            for files in (authority, self.files["client"]):
                result = run("generate", "--server", router.grpc, "--prompts", "-", "--json", *flags(files),
                             text=json.dumps(REQUEST))
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
                self.assertTrue(json.loads(result.stdout)["workers"]["prefill"], "workers take it as a router")
            result = run("generate", "--server", router.grpc, "--prompt", "x", "--timeout", "5s",
                         *flags(self.stranger))
            self.assertEqual(result.returncode, 1, "a foreign certificate is worse than none")
        finally:
            self.assertEqual(router.terminate(), 0, router.tail())

    def test_probe(self):
        for role, process in [("router", self.cluster.router), ("decode", self.cluster.decode[0]),
                              ("prefill", self.cluster.prefill[0])]:
            probe = ["probe", process.grpc, "--tls-role", role]
            self.assertEqual(run(*probe, *flags(self.files["client"])).returncode, 0, role)
            self.assertEqual(run(*probe, *flags(self.stranger)).returncode, 1, role)
            self.assertEqual(run(*probe).returncode, 1, "in the clear")
        wrong = run("probe", self.cluster.router.grpc, "--tls-role", "decode", *flags(self.files["client"]))
        self.assertEqual(wrong.returncode, 1, "it expects another role")
        self.assertIn("Try: --tls-role", wrong.stderr)

    def test_half_a_setup_is_refused_at_start(self):
        cert = self.files["decode"]
        for given in ([f"--tls-cert={cert['cert']}"], flags({**cert, "key": "/nonexistent"})):
            result = subprocess.run([str(BIN / "baton-decode"), DEMO_MODEL, "--port", "0", "--admin-port", "0",
                                     "--kv-cache-memory", "16MiB", *given],
                                    capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn("--tls-key", result.stderr)


class Page:
    """docs/tls.md: its shell lines are run in `folder`, its commands are taken from it by program."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        blocks = re.findall(r"^```(\w*)\n(.*?)^```$", (ROOT / "docs/tls.md").read_text(), re.M | re.S)
        script = "".join(text for kind, text in blocks if kind == "sh")
        subprocess.run(["bash", "-euc", script], cwd=folder, check=True, capture_output=True, timeout=60)
        self._lines = [line for kind, text in blocks if not kind for line in text.splitlines()]

    def command(self, *words, replace=()):
        """The one line that begins with `words`, its files those that the script made."""
        found = [shlex.split(line) for line in self._lines]
        line, = (line for line in found if tuple(line[:len(words)]) == words)
        known = {"models/demo": str(DEMO_MODEL), **dict(replace)}
        parts = [known.get(part, part) for part in line]
        parts = [str(self.folder / part) if re.search(r"\.(pem|key)$", part) else part for part in parts]
        return [parts[0].replace("build/cpu/bin", str(BIN)), *parts[1:]]

    def files(self, name):
        return {"cert": str(self.folder / f"{name}.pem"), "key": str(self.folder / f"{name}.key"),
                "ca": str(self.folder / "ca.pem")}


class PageTest(unittest.TestCase):
    """docs/tls.md, literally: only ports are any free ones."""

    FREE_PORTS = ["--port", "0", "--admin-port", "0"]
    SMALL = ["--kv-cache-memory", "32MiB", "--threads", "1"]

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="baton-tls-")
        cls.page = Page(cls.folder.name)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def setUp(self):
        self.processes = []

    def tearDown(self):
        for process in self.processes:
            process.kill()

    def start(self, *command, replace=()):
        name = command[0].rpartition("/")[2]
        given = self.page.command(*command, replace=replace)
        small = [] if name == "baton-router" else self.SMALL
        small = [*small, *(["--eos-log", "off"] if name == "baton" else [])]
        self.processes.append(Process(name, [*given, *self.FREE_PORTS, *small], self.folder.name))
        return self.processes[-1].wait_ready()

    def run_client(self, command):
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    def check_clients(self, address, admin):
        wait_until(lambda: Cluster._status(admin, "/readyz") == 200, "the workers")
        generate = self.page.command("build/cpu/bin/baton", "generate")

        def handed_over():
            result = self.run_client([*generate, "--server", address, "--json"])
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            answer = json.loads(result.stdout)
            self.assertEqual(answer["attempts"], 1)
            return answer["workers"]["prefill"]
        # The router is ready with its decode worker, which prefills until there is somebody for it.
        wait_until(handed_over, "an answer whose KV cache went over TLS too")
        probe = self.page.command("build/cpu/bin/baton", "probe", replace={"127.0.0.1:50051": address}.items())
        self.assertEqual(self.run_client(probe).returncode, 0)
        in_the_clear = self.run_client([generate[0], "generate", "--server", address, "--prompt", "x",
                                        "--timeout", "5s"])
        self.assertEqual(in_the_clear.returncode, 1)
        # As grpcurl and other libraries do: the name is what was dialled.
        files = self.page.files("team-red")
        read = lambda kind: pathlib.Path(files[kind]).read_bytes()
        other = client.Client(address, grpc.ssl_channel_credentials(read("ca"), read("key"), read("cert")))
        self.assertEqual(other.unary("baton.v1.ModelService/GetModelInfo", {}).name, "demo")
        other.close()

    def test_everything_on_one_machine(self):
        service = self.start("build/cpu/bin/baton", "serve")
        self.check_clients(service.grpc, service)
        self.assertEqual(service.terminate(), 0, service.tail())

    def test_one_certificate_per_role(self):
        decode = self.start("build/cpu/bin/baton-decode")
        prefill = self.start("build/cpu/bin/baton-prefill")
        router = self.start("build/cpu/bin/baton-router",
                            replace={"127.0.0.1:50061": decode.grpc, "127.0.0.1:50062": prefill.grpc}.items())
        self.check_clients(router.grpc, router)


class OrdinaryCertificateTest(unittest.TestCase):
    """Who brings a certificate as web servers have it learns at once what is missing."""

    def test_it_ends_every_start_before_anything_loads(self):
        with tempfile.TemporaryDirectory(prefix="baton-tls-") as folder:
            ours = Authority(folder, "ours")
            web = flags(ours.issue("web", ["localhost"]))
            # A folder that holds no model: nothing was read from it.
            for command, missing in [
                    (["baton", "serve"], "'router', 'prefill', 'decode'"),
                    (["baton-decode"], "'decode'"), (["baton-prefill"], "'prefill'"),
                    (["baton-router", "--decode-workers", "127.0.0.1:1"], "'router'")]:
                result = subprocess.run([str(BIN / command[0]), *command[1:], folder, *web],
                                        capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual(result.returncode, 2, f"{command}: {result.stderr}")
                self.assertEqual(result.stdout, "")
                fatal = result.stderr.splitlines()[-1]
                for part in ("web.pem names 'localhost' and 'web'", f"not the role{'s' * (',' in missing)} "
                             + missing, "Try: issue a certificate", "docs/tls.md"):
                    self.assertIn(part, fatal)


if __name__ == "__main__":
    unittest.main()
