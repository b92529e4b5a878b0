"""Everything that proves who somebody is changes under load, and no request fails: the authority, each process's
certificate, clients' certificates, and API keys; over gRPC and HTTP, on new connections and on old ones."""

import http.client
import json
import os
import pathlib
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import unittest

import grpc

import client
from cluster import BIN, Cluster, wait_until
from tls_test import Authority, flags

ROLES = {"router": ["router", "localhost"], "prefill": ["prefill"], "decode": ["decode"], "client": ["team"]}
CALLERS = ("grpc", "http", "grpc, one channel", "http, one connection")
TOKENS = 6
# Files are looked at every 10 s, and a machine may be busy.
PATIENCE_S = 60


def host_of(address):
    return address.rpartition(":")[0], int(address.rpartition(":")[2])


class Identity:
    """The files of all roles and of the clients, which are replaced as a whole."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.old, self.new = Authority(folder, "old"), Authority(folder, "new")
        self.issued = {name: {role: authority.issue(role, names) for role, names in ROLES.items()}
                       for name, authority in (("old", self.old), ("new", self.new))}
        self.files = {}
        for role in ROLES:
            self.files[role] = {kind: str(self.folder / f"{role}.{kind}") for kind in ("cert", "key", "ca")}
        self.trust(self.old)
        self.show("old")

    @staticmethod
    def _replace(path, text):
        new = pathlib.Path(f"{path}.new")
        new.write_bytes(text)
        os.replace(new, path)

    def trust(self, *authorities):
        text = b"".join(authority.ca.read_bytes() for authority in authorities)
        for files in self.files.values():
            self._replace(files["ca"], text)

    def show(self, name):
        for role, files in self.files.items():
            for kind in ("cert", "key"):
                self._replace(files[kind], pathlib.Path(self.issued[name][role][kind]).read_bytes())


class Load:
    """Callers that ask until they are stopped, and what went wrong."""

    def __init__(self, identity, cluster):
        self._files, self._cluster = identity.files["client"], cluster
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self.key = "first"
        self.failures, self.answers = [], {}
        asks = (self._ask_grpc, self._ask_http, self._ask_held, self._ask_kept)
        self._threads = [threading.Thread(target=self._repeat, args=caller, daemon=True)
                         for caller in zip(CALLERS, asks)]
        # These two show what they began with, on what they began with.
        self._channel = self._client()
        self._connection = self._https()

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)
        self._channel.close()
        self._connection.close()

    def _repeat(self, name, ask):
        while not self._stop.is_set():
            try:
                found = ask()
                wrong = None if found == TOKENS else f"{found} tokens"
            except (grpc.RpcError, OSError, http.client.HTTPException, ValueError, KeyError) as error:
                wrong = repr(error)
            with self._lock:
                self.answers[name] = self.answers.get(name, 0) + 1
                if wrong:
                    self.failures.append(f"{name}: {wrong}")
            time.sleep(0.25)  # The machine is for the service.

    def wait_for_more(self):
        """Until everybody has had answers that were asked for after this call."""
        with self._lock:
            before = dict(self.answers)
        wait_until(lambda: all(self.answers.get(thread, 0) >= before.get(thread, 0) + 2
                               for thread in CALLERS),
                   "further answers", PATIENCE_S)

    def _read(self, kind):
        return pathlib.Path(self._files[kind]).read_bytes()

    def _client(self):
        credentials = grpc.ssl_channel_credentials(self._read("ca"), self._read("key"), self._read("cert"))
        # gRPC would share connections among channels that look alike.
        return client.Client(self._cluster.router.grpc, credentials,
                             [("grpc.ssl_target_name_override", "router"), ("grpc.use_local_subchannel_pool", 1)])

    def _tokens(self, caller, key):
        request = {"text": "Once upon a time", "spec": {"stop": {"maxTokens": TOKENS, "eosPolicy": 3}}}
        metadata = (("authorization", f"Bearer {key}"),)
        answer = caller.stream("baton.v1.InferenceService/Generate", request, metadata=metadata)
        return sum(len(message.delta.token_ids) for message in answer)

    def _ask_grpc(self):
        caller = self._client()
        try:
            return self._tokens(caller, self.key)
        finally:
            caller.close()

    def _ask_held(self):
        return self._tokens(self._channel, "steady")

    def _https(self):
        context = ssl.create_default_context(cafile=self._files["ca"])
        context.load_cert_chain(self._files["cert"], self._files["key"])
        port = self._cluster.router.ready["http"].rpartition(":")[2]
        return http.client.HTTPSConnection("localhost", int(port), timeout=PATIENCE_S, context=context)

    @staticmethod
    def _completion(connection, key):
        body = {"prompt": "Once upon a time", "max_tokens": TOKENS, "ignore_eos": True}
        connection.request("POST", "/v1/completions", json.dumps(body),
                           {"Content-Type": "application/json", "Authorization": f"Bearer {key}"})
        answer = json.loads(connection.getresponse().read())
        return answer["usage"]["completion_tokens"]

    def _ask_http(self):
        connection = self._https()
        try:
            return self._completion(connection, self.key)
        finally:
            connection.close()

    def _ask_kept(self):
        return self._completion(self._connection, "steady")


class RotationTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="baton-rotation-")
        self.addCleanup(folder.cleanup)
        self.identity = Identity(folder.name)
        self.keys = pathlib.Path(folder.name) / "keys"
        self.allow("first")

    def allow(self, *keys):
        new = self.keys.with_suffix(".new")
        new.write_text("".join(f"team:{key}\n" for key in (*keys, "steady")))
        os.replace(new, self.keys)

    def ports(self, cluster):
        """(role, address, protocol) of all that speaks TLS."""
        return [("router", cluster.router.grpc, "h2"), ("router", cluster.router.ready["http"], "http/1.1"),
                ("prefill", cluster.prefill[0].grpc, "h2"), ("decode", cluster.decode[0].grpc, "h2")]

    def shown(self, address, protocol):
        """The certificate that a port shows, as PEM."""
        files = self.identity.files["client"]
        context = ssl.create_default_context(cafile=files["ca"])
        context.check_hostname = False
        context.load_cert_chain(files["cert"], files["key"])
        context.set_alpn_protocols([protocol])
        with socket.create_connection(host_of(address), timeout=10) as connection:
            with context.wrap_socket(connection) as secure:
                return ssl.DER_cert_to_PEM_cert(secure.getpeercert(True))

    def accepted(self, role, address, protocol, issuer):
        """Whether the port takes a client whose certificate comes from that authority."""
        ours = {**self.identity.issued[issuer]["client"], "ca": self.identity.files["client"]["ca"]}
        if protocol == "h2":
            probe = subprocess.run([BIN / "baton", "probe", address, "--tls-role", role, *flags(ours)],
                                   capture_output=True, timeout=30, check=False)
            return probe.returncode == 0
        context = ssl.create_default_context(cafile=ours["ca"])
        context.load_cert_chain(ours["cert"], ours["key"])
        connection = http.client.HTTPSConnection("localhost", host_of(address)[1], timeout=10, context=context)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def wait_for_ports(self, cluster, condition, what):
        for role, address, protocol in self.ports(cluster):
            wait_until(lambda r=role, a=address, p=protocol: condition(r, a, p), f"{role} {address} to {what}",
                       PATIENCE_S)

    def key_counts(self, cluster, key):
        files = self.identity.files["client"]
        result = subprocess.run([BIN / "baton", "generate", "--server", cluster.router.grpc, "--prompt", "x",
                                 "--max-tokens", "1", "--json", *flags(files)], capture_output=True, text=True,
                                timeout=30, check=False, env={**os.environ, "BATON_API_KEY": key})
        return json.loads(result.stdout).get("error", {}).get("code") != "UNAUTHENTICATED"

    def test_authority_certificates_and_keys_change_and_no_request_fails(self):
        identity = self.identity
        # Connections among the processes end soon, so that new ones are made with what is new.
        short = ["--max-connection-age", "2s"]
        with Cluster(prefill_flags=[*flags(identity.files["prefill"]), *short],
                     decode_flags=[*flags(identity.files["decode"]), *short],
                     router_flags=[*flags(identity.files["router"]), "--http-port", "0", "--api-keys", self.keys,
                                   "--ignore-eos", "allow"]) as cluster, Load(identity, cluster) as load:
            load.wait_for_more()
            # First both authorities are trusted, and both keys are taken.
            identity.trust(identity.old, identity.new)
            self.allow("first", "second")
            self.wait_for_ports(cluster, lambda r, a, p: self.accepted(r, a, p, "new"), "trust the new authority")
            wait_until(lambda: self.key_counts(cluster, "second"), "the new key", PATIENCE_S)
            # Then everybody shows what is new.
            identity.show("new")
            load.key = "second"
            new = {role: pathlib.Path(files["cert"]).read_text() for role, files in identity.issued["new"].items()}
            self.wait_for_ports(cluster, lambda r, a, p: self.shown(a, p) == new[r], "show its new certificate")
            load.wait_for_more()
            # At last what was old opens nothing any more.
            identity.trust(identity.new)
            self.allow("second")
            self.wait_for_ports(cluster, lambda r, a, p: not self.accepted(r, a, p, "old"), "refuse what is old")
            wait_until(lambda: not self.key_counts(cluster, "first"), "the old key to end", PATIENCE_S)
            load.wait_for_more()
            files = flags(identity.files["client"])
            os.environ["BATON_API_KEY"] = "second"
            self.addCleanup(os.environ.pop, "BATON_API_KEY")
            [answer] = cluster.generate([{"prompt": "Once upon a time", "max_tokens": 8}], *files)
            self.assertTrue(answer["workers"]["prefill"], "the KV cache went over a connection of new certificates")
        self.assertEqual(load.failures, [])
        print(load.answers, flush=True)


if __name__ == "__main__":
    unittest.main()
