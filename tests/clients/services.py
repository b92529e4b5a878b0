"""What clients are tried against: `baton serve` with the demo model, and the fake router. Needs no package."""

import contextlib
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import cluster  # noqa: E402
from cluster import wait_until  # noqa: E402

CLIENTS = pathlib.Path(__file__).resolve().parent
NO_TOOLCHAIN = 77


class Served:
    """`baton serve` of the demo model, on free ports."""

    def __init__(self, *flags, environment=None):
        self._folder = tempfile.TemporaryDirectory(prefix="baton-clients-")
        self._flags = flags
        self._environment = environment

    def __enter__(self):
        # The kernel ends the service with the test; its workers end with it.
        self._process = cluster.Process(
            "serve", [cluster.BIN / "baton", "serve", cluster.DEMO_MODEL, "--port", "0", "--admin-port", "0",
                      "--threads", "1", "--kv-cache-memory", "64MiB", "--eos-log", "off", *self._flags],
            self._folder.name, self._environment)
        self._process.wait_ready()
        return self

    def __exit__(self, kind, error, trace):
        try:
            code = self._process.terminate()
        except cluster.Failure:
            self._process.kill()
            raise
        if kind is not None or code != 0:
            print(self._process.tail())
        self._folder.cleanup()
        if kind is None and code != 0:
            raise cluster.Failure(f"serve exited with {code}")

    @property
    def address(self):
        return self._process.grpc

    def wait_idle(self):
        """Waits until no request is anywhere."""
        def idle():
            metrics = self._process.metrics()
            return metrics.sum("baton_requests_inflight") == 0
        wait_until(idle, "no request in flight at the router")

    def given_up(self):
        """How many requests their clients left, at a deadline or before."""
        metrics = self._process.metrics()
        return sum(metrics.sum("baton_request_failure_total", finished_reason=reason)
                   for reason in ("abort", "deadline"))


class Fake:
    """The fake router in a process of its own."""

    def __init__(self, *steps):
        self._steps = steps

    def __enter__(self):
        # Debian's Python, for its protobuf makes messages at run time the way tests/e2e/client.py does.
        self._popen = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "/usr/bin/python3", "-B", CLIENTS / "fake_router.py",
             json.dumps(self._steps)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.address = f"127.0.0.1:{json.loads(self._popen.stdout.readline())['port']}"
        return self

    def call(self):
        """The next call that came."""
        return json.loads(self._popen.stdout.readline())

    def __exit__(self, *_):
        self._popen.stdin.close()
        self._popen.wait(cluster.PATIENCE_S)
        self._popen.stdout.close()


def make_certificates(folder):
    """An authority, a certificate for all roles without a host's name, and one of the client team-red."""
    def run(*arguments):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    run("req", "-x509", *key, "-days", "2", "-subj", "/CN=Baton", "-keyout", "ca.key", "-out", "ca.pem")
    names = {"serve": "DNS:router,DNS:prefill,DNS:decode", "team-red": "DNS:team-red"}
    for name, alternatives in names.items():
        run("req", *key, "-subj", f"/CN={name}", "-addext", f"subjectAltName={alternatives}",
            "-keyout", f"{name}.key", "-out", f"{name}.csr")
        run("x509", "-req", "-days", "2", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
            "-CAcreateserial", "-copy_extensions", "copy", "-out", f"{name}.pem")
    return pathlib.Path(folder)


@contextlib.contextmanager
def secure_service(*keys):
    """A service that speaks mutual TLS only, and the folder of its certificates. With `keys`, it asks for one."""
    with tempfile.TemporaryDirectory(prefix="baton-tls-") as folder:
        certificates = make_certificates(folder)
        flags = ["--tls-cert", certificates / "serve.pem", "--tls-key", certificates / "serve.key",
                 "--tls-ca", certificates / "ca.pem"]
        if keys:
            (certificates / "keys").write_text("".join(f"team:{key}\n" for key in keys))
            flags += ["--api-keys", certificates / "keys"]
        with Served(*flags) as served:
            yield served, certificates


def need(*tools):
    """Skips the test, aloud, where one of the tools is missing."""
    missing = [tool for tool in tools if not shutil.which(tool)]
    if missing:
        print(f"skipped: {', '.join(missing)} not found", file=sys.stderr)
        sys.exit(NO_TOOLCHAIN)
