"""The servers that scripts/compare puts side by side: how each is started, and how it is loaded."""

import os
import pathlib
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The servers run here; no proxy of the environment leads to them.
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class CompareError(Exception):
    """What went wrong and what to do; ends the program with this line."""


class Server:
    """A server process with its own process group, which is gone after stop()."""

    def __init__(self, command, log, ready, environment=None, limit_s=300):
        self.log = log
        self.command = command
        with open(log, "wb") as output:
            self.process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
                env={**os.environ, **(environment or {})})
        try:
            self.address = self.await_ready(ready, limit_s)
        except BaseException:
            self.stop()
            raise

    def await_ready(self, ready, limit_s):
        """What `ready` answers, asked with the log's text until it says something."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            text = self.text()
            if (address := ready(text)) is not None:
                return address
            if self.process.poll() is not None:
                raise CompareError(f"{self.command[0]} ended with {self.process.returncode}:\n"
                                   f"{self.text()[-2000:]}")
            time.sleep(0.1)
        raise CompareError(f"{self.command[0]} was not ready after {limit_s:.0f} s:\n{self.text()[-2000:]}")

    def last_words(self):
        ended = self.process.poll()
        state = "still ran" if ended is None else f"had ended with {ended}"
        return f"The server {state}; the end of what it said:\n{self.text()[-1500:]}"

    def text(self):
        return pathlib.Path(self.log).read_text(errors="replace")

    def stop(self):
        for number, wait_s in ((signal.SIGTERM, 20), (signal.SIGKILL, 10)):
            try:
                os.killpg(self.process.pid, number)
                self.process.wait(wait_s)
                return
            except ProcessLookupError:
                self.process.wait(wait_s)
                return
            except subprocess.TimeoutExpired:
                continue


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(url):
    try:
        with DIRECT.open(url, timeout=2) as response:
            return response.status == 200
    except (urllib.error.URLError, OSError):
        return False


class Baton:
    def __init__(self, options, mode):
        self.name = f"Baton, {mode}"
        self.options, self.mode = options, mode
        threads = options.threads
        if mode == "split":
            each = max(1, threads // 2)
            self.note = f"1 prefill and 1 decode worker, {each} thread{'s' * (each > 1)} each"
        else:
            each = threads
            self.note = f"1 worker, {each} thread{'s' * (each > 1)}"
        self.each = each

    def start(self, log):
        command = [self.options.baton, "serve", self.options.model, "--mode", self.mode,
                   "--threads", str(self.each), "--port", "0", "--admin-port", "0",
                   "--max-num-seqs", str(self.options.places), "--kv-cache-memory",
                   self.options.kv_cache_memory, "--eos-log", "off", "--load-cache", "off",
                   "--log-level", "warn"]
        return Server(command, log, self.ready)

    @staticmethod
    def ready(text):
        found = re.search(r'^\{[^[]*"grpc":"([^"]+)"', text, re.M)
        return found and found.group(1)

    def load(self, address):
        return ["--server", address]


class OpenAi:
    """What the servers of the openai protocol have in common."""

    def __init__(self, options):
        self.options = options

    def load(self, address):
        return ["--server", address, "--protocol", "openai", "--vocab-size",
                str(self.options.vocab_size)]


class LlamaServer(OpenAi):
    def __init__(self, options):
        super().__init__(options)
        self.name = "llama.cpp's server"
        self.note = f"{options.threads} threads, {options.places} slots"

    def start(self, log):
        port = free_port()
        threads = str(self.options.threads)
        command = [self.options.llama_server, "-m", self.options.gguf, "--host", "127.0.0.1",
                   "--port", str(port), "-t", threads, "-tb", threads,
                   "-np", str(self.options.places),
                   "-c", str(self.options.places * self.options.context), "--no-warmup"]
        url = f"http://127.0.0.1:{port}"
        return Server(command, log, lambda _: url if answers(url + "/health") else None)


class Transformers(OpenAi):
    def __init__(self, options):
        super().__init__(options)
        self.name = "transformers, continuous batching"
        self.note = f"{options.threads} threads"

    def start(self, log):
        command = [self.options.transformers, "-B", str(ROOT / "scripts/transformers_server.py"),
                   self.options.model, "--threads", str(self.options.threads), "--kv-tokens",
                   str(self.options.places * self.options.context), "--max-requests",
                   str(self.options.places)]
        threads = {"OMP_NUM_THREADS": str(self.options.threads)}
        return Server(command, log, self.ready, threads)

    @staticmethod
    def ready(text):
        found = re.search(r"^ready (\S+)$", text, re.M)
        return found and found.group(1)


def systems_of(options):
    systems = [Baton(options, "split"), Baton(options, "unified")]
    if options.llama_server:
        systems.append(LlamaServer(options))
    if options.transformers:
        systems.append(Transformers(options))
    return systems
