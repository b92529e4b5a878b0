"""The start of `baton serve`: what is wrong is told before a model is loaded, and what is not needed is no obstacle."""

import fcntl
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.request

from cluster import BIN, DEMO_MODEL, PATIENCE_S, Process, wait_until

# Where a load cache may lie, which is not in memory.
DISK = os.environ.get("XDG_CACHE_HOME")
SMALL = ["--port", "0", "--admin-port", "0", "--threads", "1", "--kv-cache-memory", "16MiB"]


class StartTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="baton-start-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def serve(self, *arguments, model=DEMO_MODEL):
        """The command line of a service whose working directory is this test's folder."""
        return ["env", "-C", self.folder, f"XDG_CACHE_HOME={self.folder / 'cache'}", BIN / "baton", "serve", model, *SMALL, *arguments]

    def begin(self, name, *arguments, environment=None):
        process = Process(name, self.serve(*arguments), self.folder, environment)
        self.addCleanup(process.kill)
        return process

    def start(self, name, *arguments):
        return self.begin(name, *arguments).wait_ready()

    def refused(self, *arguments, code, word, model=DEMO_MODEL):
        done = subprocess.run(list(map(str, self.serve(*arguments, model=model))), capture_output=True,
                              text=True, timeout=PATIENCE_S, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertIn(word, done.stderr)
        for worker in ("[decode-0]", "[prefill-0]"):
            self.assertNotIn(worker, done.stderr, "no worker was started")

    def test_what_is_wrong_is_told_before_a_worker_starts(self):
        self.refused("--eos-log", self.folder / "absent/eos.jsonl", code=4, word="absent/eos.jsonl")
        absent = ["--tls-cert", "/absent.pem", "--tls-key", "/absent.key", "--tls-ca", "/absent.ca"]
        self.refused(*absent, code=2, word="/absent.")
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            self.refused("--port", port, code=5, word=port)
            self.refused("--admin-port", port, code=5, word=port)
        model = self.folder / "model"
        shutil.copytree(DEMO_MODEL, model)
        (model / "tokenizer.json").unlink()
        self.refused(model=model, code=3, word="tokenizer.json")

    def test_while_workers_load_the_service_has_its_ports_is_not_ready_and_can_be_ended(self):
        binaries = self.folder / "bin"
        binaries.mkdir()
        (binaries / "baton-router").symlink_to(BIN / "baton-router")
        (binaries / "baton-decode").write_text("#!/bin/sh\necho loading >&2\nexec sleep 1000\n")
        (binaries / "baton-decode").chmod(0o755)
        service = self.begin("serve", "--mode", "unified", "--eos-log", "off",
                             environment={"BATON_BIN_DIR": str(binaries)})
        wait_until(lambda: "[decode-0] loading" in service.log.read_text(), "the worker's start")
        log = service.log.read_text()
        port, admin = re.search(r"router listens: gRPC \S+:(\d+), admin (\S+),", log).groups()
        with self.assertRaises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"http://{admin}/readyz", timeout=10)
        self.assertEqual(caught.exception.code, 503)
        health = subprocess.run([BIN / "baton", "probe", f"127.0.0.1:{port}"], capture_output=True,
                                timeout=PATIENCE_S, check=False)
        self.assertEqual(health.returncode, 1, health)
        self.refused("--port", port, code=5, word=port)
        began = time.monotonic()
        self.assertEqual(service.terminate(), 0, service.tail())
        self.assertLess(time.monotonic() - began, 30, "the time to drain")
        self.assertNotIn("does not answer", service.log.read_text())

    def test_a_worker_that_is_told_to_stop_while_it_loads_ends_at_once_and_leaves_the_load_cache_sound(self):
        if DISK:
            os.makedirs(DISK, exist_ok=True)
        cache = pathlib.Path(tempfile.mkdtemp(prefix="baton-start-", dir=DISK))
        self.addCleanup(shutil.rmtree, cache)

        def worker(name, role):
            process = Process(name, [BIN / f"baton-{role}", DEMO_MODEL, *SMALL, "--load-cache", cache],
                              self.folder)
            self.addCleanup(process.kill)
            return process

        first = worker("first", "decode").wait_ready()
        self.assertEqual(first.terminate(), 0, first.tail())
        [lock] = cache.glob("packed-*/*.lock")
        for file in cache.glob("packed-*/*.packed*"):
            if file != lock:
                file.unlink()
        with open(lock, "rb") as held:
            # As another worker would have it, for which a load waits for minutes.
            fcntl.flock(held, fcntl.LOCK_EX)
            for role in ("decode", "prefill"):
                process = worker(role, role)
                wait_until(lambda p=process: "waiting for another worker" in p.log.read_text(), "the load to wait")
                began = time.monotonic()
                self.assertEqual(process.terminate(), 0, process.tail())
                self.assertLess(time.monotonic() - began, 30, "the time to load")
                self.assertFalse(process.said_anything(), "it was never ready")
                self.assertIn("told to stop while it starts", process.log.read_text())
        last = worker("last", "decode").wait_ready()
        self.assertIn("load cache written", last.log.read_text())
        self.assertEqual(last.terminate(), 0, last.tail())

    def test_a_router_says_that_nobody_listens_where_a_worker_should(self):
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            worker = f"127.0.0.1:{closed.getsockname()[1]}"
            router = Process("router", [BIN / "baton-router", DEMO_MODEL, "--port", 0, "--admin-port", 0,
                                        "--decode-workers", worker, "--worker-start-timeout", "0s"],
                             self.folder)
            self.addCleanup(router.kill)
            wait_until(lambda: f"decode worker {worker} does not answer" in router.log.read_text(),
                       "a log line that names the worker")

    def test_nobody_needs_the_log_at_the_default_path(self):
        (self.folder / "eos_probabilities.jsonl").mkdir()
        service = self.start("serve")
        log = service.log.read_text()
        warnings = [line for line in log.splitlines() if "there is no EOS log" in line]
        self.assertEqual(len(warnings), 1, log)
        for word in ("eos_probabilities.jsonl", "directory", "--eos-log FILE", "--eos-log off"):
            self.assertIn(word, warnings[0])
        self.assertEqual(service.terminate(), 0, service.tail())

    def test_an_ipv6_address_that_has_letters_is_found_ready(self):
        service = self.start("serve", "--host", "::ffff:7f00:1", "--insecure", "--eos-log", "off")
        self.assertIn("ffff", service.ready["admin"])
        self.assertEqual(service.terminate(), 0, service.tail())

    def test_what_is_printed_without_standard_files_goes_into_no_other_file(self):
        worker = [DEMO_MODEL, "--port", "0", "--admin-port", "0", "--kv-cache-memory", "16MiB"]
        for program, *arguments in (["baton", "serve", DEMO_MODEL, *SMALL, "--eos-log", "off"],
                                    ["baton-router", *worker[:5], "--decode-workers", "127.0.0.1:1"],
                                    ["baton-prefill", *worker], ["baton-decode", *worker]):
            closing = ["sh", "-c", 'exec "$0" "$@" <&- >&- 2>&-', BIN / program, *arguments]
            process = Process(program, closing, self.folder)
            self.addCleanup(process.kill)
            files = pathlib.Path(f"/proc/{process.pid}/fd")
            wait_until(lambda: program in os.readlink(f"/proc/{process.pid}/exe") and (files / "3").is_symlink(),
                       f"a file that {program} opens")
            for number in "012":
                self.assertEqual(os.readlink(files / number), "/dev/null", program)
            process.kill()

    def test_two_services_never_write_one_log(self):
        first = self.start("first")
        self.assertTrue((self.folder / "eos_probabilities.jsonl").is_file())
        self.assertNotIn("there is no EOS log", first.log.read_text())
        self.refused("--eos-log", "eos_probabilities.jsonl", code=4, word="written by another process")
        second = self.start("second")
        self.assertIn("there is no EOS log: ./eos_probabilities.jsonl is written by another process",
                      second.log.read_text())
        for service in (first, second):
            self.assertEqual(service.terminate(), 0, service.tail())


if __name__ == "__main__":
    unittest.main()
