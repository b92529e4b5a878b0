"""The edges of the HTTP port: keys, limits, connections, drain. What it answers is openai_test's."""

import http.client
import json
import multiprocessing
import os
import pathlib
import re
import resource
import signal
import socket
import subprocess
import tempfile
import unittest

import grpc

from cluster import BIN, DEMO_MODEL, Cluster, Process, wait_until

REQUEST = {"prompt": "Once upon a time", "max_tokens": 12, "eos": "mask", "seed": 3}
IDLE_CONNECTIONS = 10_000
REFUSED = ("UNAUTHENTICATED", "INVALID_API_KEY")


def split(address):
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def ask(address, path="/nothing", key=None, method="GET", body=None, headers=None):
    """(status, headers, body) of one request."""
    connection = http.client.HTTPConnection(*split(address), timeout=30)
    try:
        sent = dict(headers or {}, **({"Authorization": f"Bearer {key}"} if key else {}))
        connection.request(method, path, body, sent)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def refuses(address):
    """Whether nobody listens there."""
    try:
        socket.create_connection(address, timeout=5).close()
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:
        pass  # The port was closed while this connection waited to be accepted; the next try says it.
    return False


def hold_connections(address, count, opened, until):
    """Opens connections and keeps them idle; in a process of its own, with its own descriptors."""
    resource.setrlimit(resource.RLIMIT_NOFILE, [resource.getrlimit(resource.RLIMIT_NOFILE)[1]] * 2)
    held = []
    try:
        for _ in range(count):
            held.append(socket.create_connection(split(address), timeout=60))
    finally:
        opened.value = len(held)
        until.wait(300)
        for connection in held:
            connection.close()


class HttpTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="baton-http-")
        cls.keys = pathlib.Path(cls.folder.name) / "keys"
        cls.write_keys("red:key-of-red", "blue:key-of-blue")
        cls.cluster = Cluster(router_flags=["--http-port", "0", "--api-keys", cls.keys,
                                            "--http-max-body", "64KiB"])
        cls.cluster.__enter__()
        cls.http = cls.cluster.router.ready["http"]

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__(None, None, None)
        cls.folder.cleanup()

    @classmethod
    def write_keys(cls, *lines):
        new = cls.keys.with_suffix(".new")
        new.write_text("# who may call\n" + "\n".join(lines) + "\n")
        new.rename(cls.keys)

    def generate(self, key):
        """Code and reason of the error of a request over gRPC with that key, or None."""
        environment = {name: value for name, value in os.environ.items() if name != "BATON_API_KEY"}
        result = subprocess.run(
            [BIN / "baton", "generate", "--server", self.cluster.router.grpc, "--prompts", "-", "--json"],
            input=json.dumps(REQUEST) + "\n", capture_output=True, text=True, timeout=60, check=False,
            env=dict(environment, **({"BATON_API_KEY": key} if key else {})))
        self.assertEqual(result.stderr, "")
        error = json.loads(result.stdout).get("error")
        return error and (error["code"], error["reason"])

    def test_a_key_opens_both_ports(self):
        before = self.cluster.router.metrics().sum("baton_api_key_refusals_total")
        self.assertIsNone(self.generate("key-of-red"))
        self.assertEqual(self.generate(None), REFUSED)
        self.assertEqual(self.generate("key-of-green"), REFUSED)
        self.assertNotIn(ask(self.http, key="key-of-red")[0], (401, 403))
        self.assertEqual(ask(self.http, "/v1/models")[0], 401)
        self.assertEqual(ask(self.http, "/v1/models", key="key-of-green")[0], 401)
        metrics = self.cluster.router.metrics()
        self.assertEqual(metrics.sum("baton_api_key_refusals_total") - before, 4)
        self.assertGreater(metrics.sum("baton_tenant_generation_tokens_total", tenant="red"), 0)
        self.assertNotIn("key-of", self.cluster.router.log.read_text())

    def test_health_and_reflection_need_no_key(self):
        result = subprocess.run([BIN / "baton", "probe", self.cluster.router.grpc], timeout=30, check=False)
        self.assertEqual(result.returncode, 0)
        with grpc.insecure_channel(self.cluster.router.grpc) as channel:
            call = channel.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
            self.assertTrue(list(call(iter([b"\x3a\x00"]), timeout=30)))

    def test_keys_change_while_it_serves(self):
        self.write_keys("red:key-of-red", "blue:key-of-blue", "red:next-key")
        wait_until(lambda: self.generate("next-key") is None, "the new key")
        self.assertIsNone(self.generate("key-of-red"))
        self.write_keys("no key at all")
        wait_until(lambda: "API keys read before stay in use" in self.cluster.router.log.read_text(),
                   "the complaint")
        self.assertIsNone(self.generate("next-key"))
        self.write_keys("red:key-of-red", "blue:key-of-blue")
        wait_until(lambda: self.generate("next-key") == REFUSED, "the old key to end")

    def test_what_the_header_is_refused_for_is_counted(self):
        def counted():
            metrics = self.cluster.router.metrics()
            return [metrics.sum("baton_http_refusals_total", status=status)
                    for status in ("401", "404", "405", "413", "415", "501", "other")]
        before, received = counted(), self.cluster.router.metrics().sum("baton_requests_received_total")
        json_type = {"Content-Type": "application/json"}
        post = {"path": "/v1/completions", "method": "POST", "body": "{}"}
        status, _, body = ask(self.http, **post, headers=json_type, key="nobody's")
        self.assertEqual((status, json.loads(body)["error"]["code"]), (401, "invalid_api_key"))
        self.assertEqual(ask(self.http, "/v2", key="key-of-red")[0], 404)
        self.assertEqual(ask(self.http, "/v1/completions", key="key-of-red")[0], 405)
        self.assertEqual(ask(self.http, "/v1/completions", "key-of-red", "POST",
                             headers=json_type | {"Content-Length": str(1 << 40)})[0], 413)
        self.assertEqual(ask(self.http, **post, key="key-of-red")[0], 415)
        self.assertEqual([now - then for now, then in zip(counted(), before)], [1, 1, 1, 1, 1, 0, 0])
        self.assertEqual(self.cluster.router.metrics().sum("baton_requests_received_total"), received)

    def test_what_is_too_large_is_refused_before_it_is_read(self):
        status, headers, _ = ask(self.http, "/v1/completions", key="key-of-red", method="POST",
                                 headers={"Content-Type": "application/json",
                                          "Content-Length": str(1 << 40)})
        self.assertEqual((status, headers.get("Connection")), (413, "close"))
        self.assertEqual(ask(self.http, key="key-of-red", headers={"X-Large": "x" * 40_000})[0], 431)

    def test_idle_connections_harm_nobody(self):
        """Ten thousand of another process, one by one: descriptors are limited per process."""
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        count = min(IDLE_CONNECTIONS, files * 3 // 4)
        opened, until = multiprocessing.Value("i", 0), multiprocessing.Event()
        holder = multiprocessing.Process(target=hold_connections,
                                         args=(self.http, count, opened, until), daemon=True)
        memory = self.resident()
        holder.start()
        try:
            wait_until(lambda: opened.value or not holder.is_alive(), "the connections", 120)
            self.assertEqual(opened.value, count)
            wait_until(lambda: self.cluster.router.metrics().sum("baton_http_connections") >= count,
                       "the router to have all of them")
            self.assertNotIn(ask(self.http, key="key-of-red")[0], (401, 403))
            self.assertIsNone(self.generate("key-of-red"))
            each = (self.resident() - memory) / count
            self.assertLess(each, 16 << 10)
        finally:
            until.set()
            holder.join(60)
        wait_until(lambda: self.cluster.router.metrics().sum("baton_http_connections") < 10,
                   "the router to let go of them")

    def resident(self):
        return self.cluster.router.metrics().sum("process_resident_memory_bytes")


class HttpStartTest(unittest.TestCase):
    def router(self, *flags):
        """How a router ends that cannot start: exit code and last line."""
        result = subprocess.run(
            [BIN / "baton-router", DEMO_MODEL, "--port", "0", "--admin-port", "0", "--eos-log", "off",
             "--decode-workers", "127.0.0.1:1", *flags],
            capture_output=True, text=True, timeout=60, check=False)
        return result.returncode, result.stderr.splitlines()[-1]

    def test_serve_says_where_http_is_and_a_router_comes_back_there(self):
        with tempfile.TemporaryDirectory(prefix="baton-http-") as folder:
            serve = Process("serve", [BIN / "baton", "serve", DEMO_MODEL, "--mode", "unified", "--port", "0",
                                      "--admin-port", "0", "--eos-log", "off", "--threads", "1"], folder)
            try:
                address = serve.wait_ready().ready["http"]
                self.assertEqual(ask(address)[0], 404)
                router = re.search(r"router listens: .* pid (\d+)", serve.log.read_text()).group(1)
                os.kill(int(router), signal.SIGKILL)
                wait_until(lambda: serve.log.read_text().count(f"HTTP on {address}") == 2, "another life")
                self.assertEqual(ask(address)[0], 404)
            finally:
                serve.terminate()

    def test_a_port_in_use_is_told_at_once(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            code, line = self.router("--http-port", str(taken.getsockname()[1]))
        self.assertEqual(code, 5)
        self.assertIn("--http-port", line)

    def test_keys_that_cannot_be_read_are_told_at_once(self):
        code, line = self.router("--api-keys", "/nonexistent")
        self.assertEqual(code, 2)
        self.assertIn("--api-keys /nonexistent cannot be read", line)
        with tempfile.NamedTemporaryFile("w") as keys:
            keys.write("red:one\nsecret\n")
            keys.flush()
            code, line = self.router("--api-keys", keys.name)
        self.assertEqual(code, 2)
        self.assertIn("line 2 has no colon", line)
        self.assertNotIn("secret", line)

    def test_a_drain_closes_the_port_while_a_stream_goes_on_and_then_ends(self):
        # Steps slow enough that the stream outlasts the port.
        slow = {"decode_flags": ["--enable-failpoints", "--log-level", "error"],
                "worker_environment": {"BATON_FAILPOINT": "stepping:delay_ms=10"}}
        with Cluster(prefill=0, router_flags=["--http-port", "0"], **slow) as cluster:
            address = split(cluster.router.ready["http"])
            kept, busy = (http.client.HTTPConnection(*address, timeout=60) for _ in range(2))
            kept.request("GET", "/nothing")
            kept.getresponse().read()
            busy.request("POST", "/v1/completions", json.dumps(
                {"prompt": "Once upon a time", "max_tokens": 300, "ignore_eos": True, "stream": True}),
                         {"Content-Type": "application/json"})
            answer = busy.getresponse()
            self.assertTrue(answer.readline().startswith(b"data: "))
            os.kill(cluster.router.pid, signal.SIGTERM)
            wait_until(lambda: refuses(address), "the port to be closed")
            self.assertTrue(cluster.router.running())
            self.assertTrue(answer.read().endswith(b"data: [DONE]\n\n"))
            wait_until(lambda: not cluster.router.running(), "the end of the drain")
            self.assertEqual(cluster.router.exit_code(), 0)
            kept.close()
            busy.close()


if __name__ == "__main__":
    unittest.main()
