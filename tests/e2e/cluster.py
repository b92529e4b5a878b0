"""Starts the shipped binaries on loopback, talks to them as a user would, and leaves nothing behind.

The folder with the binaries is the environment variable BATON_BIN, a model to serve in place of the demo
model, as one of small weights, BATON_TEST_MODEL. Every process gets port 0 and says where it listens in
its ready line; logs go to files that are shown when a test fails.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("BATON_BIN", ROOT / "build/cpu/bin"))
DEMO_MODEL = pathlib.Path(os.environ.get("BATON_TEST_MODEL", ROOT / "models/demo"))
MAKE_GGUF = os.environ.get("BATON_MAKE_GGUF", ROOT / "build/cpu/tests/make_gguf")
# Sanitizer builds are several times slower.
PATIENCE_S = float(os.environ.get("BATON_PATIENCE_S", "60"))
GENERATE_PATIENCE_S = 10 * PATIENCE_S  # all requests of one `baton generate`


class Failure(AssertionError):
    """The service did something that the test did not expect."""


def wait_until(condition, what, timeout_s=None):
    """Polls until `condition()` is truthy; returns that value. `what` is a text, or a function that makes it when
    the wait was in vain, for what a log says then."""
    deadline = time.monotonic() + (timeout_s or PATIENCE_S)
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise Failure(f"waited in vain for: {what() if callable(what) else what}")
        time.sleep(0.02)


def begin(call, *arguments, **named):
    """Calls it in a thread of its own; what comes back is a future, whose result() raises what the call raised."""
    with_one_thread = concurrent.futures.ThreadPoolExecutor(1)
    result = with_one_thread.submit(call, *arguments, **named)
    with_one_thread.shutdown(wait=False)
    return result


class Process:
    """One baton-* process."""

    def __init__(self, name, arguments, folder, environment=None):
        self.name = name
        self.log = pathlib.Path(folder) / f"{name}.log"
        self._ready_file = pathlib.Path(folder) / f"{name}.ready"
        env = {**os.environ, "GOMP_SPINCOUNT": "1000",
               "XDG_CACHE_HOME": str(pathlib.Path(folder) / "cache"), **(environment or {})}
        with open(self.log, "wb") as log, open(self._ready_file, "wb") as ready:
            # The kernel ends it with the test, however that ends.
            self._popen = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *map(str, arguments)], stdin=subprocess.DEVNULL,
                stdout=ready, stderr=log, env=env, start_new_session=True)
        self.pid = self._popen.pid
        self.ready = None

    def poll_ready(self):
        """Whether it has said where it listens; does not wait."""
        if not self.running():
            raise Failure(f"{self.name} exited with {self.exit_code()}:\n{self.tail()}")
        text = self._ready_file.read_text()
        if text.endswith("\n"):
            self.ready = json.loads(text)
        return self.ready is not None

    def said_anything(self):
        """Whether there is anything on its standard output, which is for the ready line."""
        return self._ready_file.stat().st_size > 0

    def wait_ready(self):
        wait_until(self.poll_ready, lambda: f"the ready line of {self.name}:\n{self.tail()}")
        return self

    @property
    def grpc(self):
        return self.ready["grpc"]

    @property
    def admin(self):
        return self.ready["admin"]

    def running(self):
        return self.exit_code() is None

    def exit_code(self):
        """None while it runs; minus the signal's number if one ended it."""
        return self._popen.poll()

    def stopped(self):
        """True if a failpoint (SIGSTOP) or a signal has stopped the process."""
        stat = pathlib.Path(f"/proc/{self.pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] in ("T", "t")

    def kill(self):
        if self.running():
            os.kill(self.pid, signal.SIGKILL)
        self._popen.wait()

    def terminate(self, timeout_s=None):
        """SIGTERM, then the exit code."""
        if self.running():
            os.kill(self.pid, signal.SIGTERM)
        try:
            return self._popen.wait(timeout_s or PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise Failure(f"{self.name} did not end after SIGTERM:\n{self.tail()}") from None

    def tail(self, lines=40):
        text = self.log.read_text(errors="replace").splitlines()
        return "\n".join(f"  {self.name}| {line}" for line in text[-lines:])

    def metrics(self):
        return Metrics(self.get("/metrics"))

    def get(self, path):
        with urllib.request.urlopen(f"http://{self.admin}{path}", timeout=10) as answer:
            return answer.read().decode()


class Metrics:
    """A scrape. metrics.sum("baton_x_total", reason="y") adds up the series that match."""

    LINE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$")
    LABEL = re.compile(r'([a-zA-Z_]+)="((?:[^"\\]|\\.)*)"')

    def __init__(self, text):
        self.series = []
        for line in text.splitlines():
            match = self.LINE.match(line)
            if match:
                labels = dict(self.LABEL.findall(match.group(2) or ""))
                self.series.append((match.group(1), labels, float(match.group(3))))

    def sum(self, name, **labels):
        found = [value for series, have, value in self.series
                 if series == name and all(have.get(k) == v for k, v in labels.items())]
        if not found:
            raise Failure(f"no series {name} {labels}")
        return sum(found)


def generate(server, requests, *options, concurrency=1, check=True):
    """Runs `baton generate --json` over `requests` (dicts of a prompts line); results in order."""
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    result = subprocess.run(
        [str(BIN / "baton"), "generate", "--server", server, "--prompts", "-", "--json",
         "--concurrency", str(concurrency), *options],
        input=lines, capture_output=True, text=True, timeout=GENERATE_PATIENCE_S, check=False)
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    if check and (result.returncode != 0 or len(answers) != len(requests)):
        raise Failure(f"generate exited with {result.returncode}: {result.stderr}\n{answers}")
    by_id = {answer["request_id"]: answer for answer in answers}
    if all("request_id" in request for request in requests):
        return [by_id.get(request["request_id"]) for request in requests]
    return answers


class Cluster:
    """A router with its workers. Use as a context manager."""

    def __init__(self, model=DEMO_MODEL, decode=1, prefill=1, flags=(), decode_flags=(),
                 prefill_flags=(), router_flags=(), worker_environment=None, role_environment=None,
                 eos_log=True):
        self.folder = tempfile.TemporaryDirectory(prefix="baton-e2e-")
        self.path = pathlib.Path(self.folder.name)
        self.model = model
        self.flags = ["--threads", "1", *flags]
        if "--kv-cache-tokens" not in flags:
            self.flags += ["--kv-cache-memory", "64MiB"]
        self.decode_flags, self.prefill_flags = list(decode_flags), list(prefill_flags)
        self.router_flags = list(router_flags)
        self.worker_environment = worker_environment or {}
        self.role_environment = role_environment or {}  # by role, on top of that
        self._counts = {"decode": decode, "prefill": prefill}
        self._next = 0
        self.decode, self.prefill, self.router = [], [], None
        self.eos_log = self.path / "eos.jsonl"
        self._logs = eos_log

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            self.__exit__(*([None] * 3))
            raise
        return self

    def _start(self):
        workers = [self.spawn_worker(role) for role in ("decode", "prefill")
                   for _ in range(self._counts[role])]
        for worker in workers:
            worker.wait_ready()
        self.router = self.spawn_router().wait_ready()
        self.wait_routable(self.router)

    def wait_routable(self, router):
        wait_until(lambda: self._status(router, "/readyz") == 200, f"{router.name} to be ready")

    def wait_all_seen(self):
        """Until the router has heard of every worker, so that none is left out only because it came late."""
        workers = len(self.decode) + len(self.prefill)
        wait_until(lambda: self.router.metrics().sum("baton_router_worker_up") == workers, "all workers to be seen")

    @staticmethod
    def _status(process, path):
        try:
            process.get(path)
            return 200
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def spawn_worker(self, role, port=0, environment=None, extra=()):
        role_flags = self.decode_flags if role == "decode" else self.prefill_flags
        name = f"{role}-{self._next}"
        self._next += 1
        process = Process(
            name, [BIN / f"baton-{role}", self.model, "--host", "127.0.0.1", "--port", port,
                   "--admin-port", "0", *self.flags, *role_flags, *extra],
            self.path, {**self.worker_environment, **self.role_environment.get(role, {}),
                        **(environment or {})})
        (self.decode if role == "decode" else self.prefill).append(process)
        return process

    def replace_stopped_decode(self):
        """Kills the only decode worker once a failpoint has stopped it, and starts another at its port."""
        (victim,) = self.decode
        wait_until(victim.stopped, "the failpoint")
        victim.kill()
        self.decode.clear()
        self.worker_environment, self.role_environment = {}, {}  # no failpoint any more
        return self.spawn_worker("decode", port=victim.grpc.rpartition(":")[2]).wait_ready()

    def spawn_router(self, name="router"):
        log = self.eos_log if name == "router" else self.path / f"{name}.jsonl"
        arguments = [BIN / "baton-router", self.model, "--host", "127.0.0.1", "--port", "0",
                     "--admin-port", "0", "--eos-log", log if self._logs else "off",
                     "--decode-workers", ",".join(worker.grpc for worker in self.decode)]
        if self.prefill:
            arguments += ["--prefill-workers", ",".join(worker.grpc for worker in self.prefill)]
        return Process(name, [*arguments, *self.router_flags], self.path)

    def processes(self):
        return [*self.decode, *self.prefill, *([self.router] if self.router else [])]

    def __exit__(self, kind, error, trace):
        for process in self.processes():
            if process.running() and process.stopped():
                os.kill(process.pid, signal.SIGCONT)
            process.kill()
        if kind is not None:
            print("\n".join(process.tail() for process in self.processes()))
        try:
            if kind is None:
                self.assert_eos_logs_are_valid()
        finally:
            self.folder.cleanup()

    # --- What a test does with it ---

    def generate(self, requests, *options, concurrency=1, check=True):
        return generate(self.router.grpc, requests, *options, concurrency=concurrency, check=check)

    def eos_rows(self, request_id=None):
        text = self.eos_log.read_text() if self.eos_log.exists() else ""
        rows = [json.loads(line) for line in text.splitlines()]
        return [row for row in rows if request_id in (None, row["request_id"])]

    def finished_rows(self, request_id, answers=1):
        """All rows of a request, when its answers are over and the router has written them."""
        def rows():
            found = self.eos_rows(request_id)
            return found if sum(row["is_finished"] for row in found) == answers else None
        return wait_until(rows, f"the last row of {request_id}")

    def assert_eos_logs_are_valid(self):
        """Each row that the routers wrote is as the schema and the other rows of its request demand.

        A last line may be cut off, for routers are killed.
        """
        logs = [path for path in self.path.glob("*.jsonl") if not path.name.endswith(".requests.jsonl")]
        if not logs:
            return
        result = subprocess.run([BIN / "baton", "eos", "validate", *logs], capture_output=True, text=True,
                                timeout=PATIENCE_S, check=False)
        if result.stdout.count(": all rows are good") != len(logs):
            raise Failure(f"an EOS log is not valid:\n{result.stdout}{result.stderr}")

    def assert_nothing_held(self):
        """All blocks are free or cached again, and every request is accounted for."""
        for worker in [*self.decode, *self.prefill]:
            if worker.running() and not worker.stopped():
                wait_until(lambda w=worker: self._held_blocks(w) == 0, f"free blocks on {worker.name}")
        wait_until(self._conserved, "requests received = finished")

    @staticmethod
    def _held_blocks(worker):
        return worker.metrics().sum("baton_kv_blocks", state="used") + worker.metrics().sum(
            "baton_kv_blocks", state="quarantined")

    def _conserved(self):
        metrics = self.router.metrics()
        finished = metrics.sum("baton_request_success_total") + metrics.sum("baton_request_failure_total")
        inflight = metrics.sum("baton_requests_inflight")
        return inflight == 0 and metrics.sum("baton_requests_received_total") == finished
