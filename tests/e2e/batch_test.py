"""`baton batch` with the shipped binaries: both ways of starting, kills, and a service that goes away."""

import fcntl
import json
import os
import pathlib
import pty
import re
import signal
import struct
import subprocess
import tempfile
import termios
import unittest

from cluster import BIN, DEMO_MODEL, PATIENCE_S, Cluster, wait_until
from openai_client import Http

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"


def request(custom_id, url=TEXT, **body):
    return {"custom_id": custom_id, "method": "POST", "url": url, "body": body}


def stories(count, tokens=60):
    return [request(f"s{i}", prompt=f"Once upon a time {i}", max_tokens=tokens, ignore_eos=True, seed=i,
                    temperature=0.9) for i in range(count)]


def children_of(pid):
    return [int(entry.name) for entry in pathlib.Path("/proc").iterdir() if entry.name.isdigit()
            and parent_of(entry) == pid]


def parent_of(entry):
    try:
        return int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:  # it ended meanwhile
        return 0


class BatchTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(router_flags=["--http-port", "0", "--ignore-eos", "allow"], eos_log=False)
        cls.cluster.__enter__()
        cls.address = cls.cluster.router.ready["http"]

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__(None, None, None)

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="baton-batch-")
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)
        self.input, self.output = self.path / "in", self.path / "out"
        self.environment = {**os.environ, "XDG_CACHE_HOME": str(self.path / "cache")}

    def write(self, requests):
        self.input.write_text("".join(
            (one if isinstance(one, str) else json.dumps(one)) + "\n" for one in requests))

    def command(self, *options, model=None, server=None):
        way = [str(model)] if model else ["--server", server or self.address]
        return [str(BIN / "baton"), "batch", str(self.input), str(self.output), *way, *options]

    def run_batch(self, *options, exit_code=0, **way):
        result = subprocess.run(self.command(*options, **way), capture_output=True, text=True,
                                timeout=5 * PATIENCE_S, check=False, env=self.environment)
        self.assertEqual(result.returncode, exit_code, result.stderr)
        return result

    def start_batch(self, *options, **way):
        process = subprocess.Popen(self.command(*options, **way), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=self.environment)

        def end():
            if process.poll() is None:
                process.kill()
            process.communicate()
        self.addCleanup(end)
        return process

    def lines_done(self):
        return self.output.read_bytes().count(b"\n") if self.output.exists() else 0

    def answers(self):
        """By custom_id, each of which may stand there once."""
        lines = [json.loads(line) for line in self.output.read_text().splitlines()]
        found = {line["custom_id"]: line for line in lines}
        self.assertEqual(len(found), len(lines))
        return found

    def check_all_answered(self, requests):
        answers = self.answers()
        self.assertEqual(set(answers), {one["custom_id"] for one in requests})
        self.assertEqual({line["response"]["status_code"] for line in answers.values()}, {200})
        return answers

    def text_of(self, line):
        choice = line["response"]["body"]["choices"][0]
        return choice["text"] if "text" in choice else choice["message"]["content"]

    def test_answers_are_those_of_the_http_port(self):
        requests = [*stories(6, tokens=20),
                    request("chat", CHAT, messages=[{"role": "user", "content": "List 3 animals."}], temperature=0),
                    request("ids", prompt=[5, 6, 7], max_tokens=9, seed=3, logprobs=2),
                    request("rows", prompt="A fox", max_tokens=5, temperature=0, baton={"eos_steps": True})]
        self.write(requests)
        self.run_batch("--concurrency", "4")
        answers = self.check_all_answered(requests)
        http = Http(self.address)
        for one in requests:
            status, theirs = http.post(one["url"], one["body"])
            self.assertEqual(status, 200)
            ours = answers[one["custom_id"]]["response"]["body"]
            self.assertTrue(answers[one["custom_id"]]["response"]["request_id"].startswith("req-"))
            for body in (ours, theirs):
                del body["id"], body["created"], body["usage"]["prompt_tokens_details"]
                body.get("baton", {}).pop("timings_ms", None)
                for row in body.get("baton", {}).get("eos", []):
                    del row["timestamp"]
            self.assertEqual(ours, theirs)

    def test_own_workers_give_the_same_and_go_with_it(self):
        requests = [*stories(8, tokens=12), "no json", "", {**request("get", prompt="x"), "method": "GET"},
                    request("refused", prompt="x", max_tokens=-1)]
        self.write(requests)
        result = self.run_batch("--threads", "1", "--kv-cache-memory", "64MiB", model=DEMO_MODEL, exit_code=1)
        self.assertIn("11 of 11 lines done, 3 failed", result.stdout)
        self.assertIn("line 9 failed: the line is no JSON object", result.stderr)
        own = self.answers()
        self.assertEqual(own[None]["id"], "line-9")
        self.assertEqual(own[None]["error"]["code"], "invalid_line")
        self.assertEqual(own["get"]["error"]["code"], "invalid_line")
        self.assertEqual(own["refused"]["response"]["status_code"], 400)
        # Another service with another number of workers.
        self.output.unlink()
        self.run_batch(exit_code=1)
        for name, line in self.answers().items():
            if line["error"] is None and line["response"]["status_code"] == 200:
                self.assertEqual(self.text_of(line), self.text_of(own[name]))

    def test_on_a_terminal_nothing_stands_in_the_line_of_the_progress(self):
        # In the place of `baton serve`, to log as much as it likes.
        service = self.path / "baton"
        service.write_text(f"""#!/bin/sh
echo '{{"http": "{self.address}"}}'
while :; do echo "said by a worker" >&2; sleep 0.02; done
""")
        service.chmod(0o755)
        self.environment["BATON_BIN_DIR"] = str(self.path)
        requests = stories(200)
        self.write(requests)
        terminal, side = pty.openpty()
        self.addCleanup(os.close, terminal)
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        process = subprocess.Popen(self.command("--concurrency", "4", model=DEMO_MODEL), stdout=side, stderr=side,
                                   env=self.environment)
        os.close(side)
        written = b""
        try:
            while piece := os.read(terminal, 65536):
                written += piece
        except OSError:  # of a terminal without anybody on its other side
            pass
        self.assertEqual(process.wait(PATIENCE_S), 0, written)
        text = written.decode()
        self.assertRegex(text, r"[\r\n]\d+ of 200 lines")
        for row in re.split(r"[\r\n]+", text):
            if "of 200 lines done" in row:
                self.assertTrue(row.startswith(str(self.output)), row)
            elif "said by" in row:
                self.assertEqual(row, "said by a worker")
            elif "under way" in row:
                self.assertLess(len(row), 80)

    def test_workers_that_cannot_start_are_told(self):
        self.write(stories(1))
        result = self.run_batch(model=self.path / "none", exit_code=3)
        self.assertIn("cannot start workers", result.stderr)
        self.assertFalse(self.output.read_text())

    def test_after_a_kill_nothing_is_lost_or_done_twice(self):
        requests = stories(120)
        self.write(requests)
        process = self.start_batch("--concurrency", "4", "--threads", "1", "--kv-cache-memory", "64MiB",
                                   model=DEMO_MODEL)
        wait_until(lambda: self.lines_done() >= 10, "the first answers")
        serve = children_of(process.pid)
        processes = [*serve, *(child for pid in serve for child in children_of(pid))]
        self.assertEqual(len(processes), 4)  # serve, router, prefill, decode
        process.kill()
        process.wait()
        wait_until(lambda: not any(pathlib.Path(f"/proc/{pid}").exists() and parent_of(pathlib.Path(f"/proc/{pid}"))
                                   for pid in processes), "the end of all that it had started")
        before = self.output.read_bytes()
        self.assertLess(before.count(b"\n"), len(requests))
        # As a machine that stops leaves it.
        with self.output.open("ab") as out:
            out.write(b'{"id":"line-119","custom_id":"s118","respon')
        result = self.run_batch("--concurrency", "8")
        self.assertIn("a last line without an end, of 43 bytes, is dropped", result.stderr)
        self.assertTrue(self.output.read_bytes().startswith(before))
        answers = self.check_all_answered(requests)
        again = self.output.with_name("again")
        os.rename(self.output, again)
        self.run_batch()
        for name, line in self.answers().items():
            self.assertEqual(self.text_of(line), self.text_of(answers[name]))

    def test_a_signal_ends_it_and_says_how_to_go_on(self):
        requests = stories(400)
        self.write(requests)
        for number in (signal.SIGTERM, signal.SIGINT):
            before = self.lines_done()
            process = self.start_batch("--concurrency", "4")
            wait_until(lambda: self.lines_done() >= before + 5, "some answers")
            process.send_signal(number)
            out, err = process.communicate(timeout=PATIENCE_S)
            self.assertEqual(process.returncode, 1, err)
            self.assertIn("what is answered is kept", err)
            self.assertIn("the same command goes on", out)
            self.assertTrue(self.output.read_bytes().endswith(b"\n"))
            self.assertLess(self.lines_done(), len(requests))
        self.cluster.assert_nothing_held()
        self.run_batch()
        self.check_all_answered(requests)

    def test_parts_make_a_whole(self):
        requests = stories(11, tokens=4)
        self.write(requests)
        texts = []
        for part in range(3):
            self.output = self.path / f"out-{part}"
            environment = dict(os.environ, JOB_COMPLETION_INDEX=str(part))
            subprocess.run(self.command("--part", "index/3"), env=environment, check=True, capture_output=True,
                           timeout=PATIENCE_S)
            texts.append(self.output.read_text())
        result = self.run_batch("--part", "0/3", exit_code=2)
        self.assertIn("part 0/3, does not have", result.stderr)
        self.output = self.path / "all"
        self.output.write_text("".join(texts))
        self.check_all_answered(requests)
        self.assertIn("0 now", self.run_batch().stdout)


class AwayTest(unittest.TestCase):
    """Services of which something is to be broken."""

    setUp, write, command, start_batch = BatchTest.setUp, BatchTest.write, BatchTest.command, BatchTest.start_batch
    lines_done, answers = BatchTest.lines_done, BatchTest.answers
    run_batch, check_all_answered = BatchTest.run_batch, BatchTest.check_all_answered

    def test_a_service_that_goes_away_is_waited_for(self):
        with Cluster(router_flags=["--http-port", "0", "--ignore-eos", "allow"], eos_log=False) as cluster:
            self.address = cluster.router.ready["http"]
            requests = stories(150)
            self.write(requests)
            process = self.start_batch("--concurrency", "4")
            wait_until(lambda: self.lines_done() >= 10, "the first answers")
            cluster.router.kill()
            cluster.router_flags[1] = self.address.rpartition(":")[2]
            cluster.router = cluster.spawn_router("router-again").wait_ready()
            _, err = process.communicate(timeout=3 * PATIENCE_S)
            self.assertEqual(process.returncode, 0, err)
            self.check_all_answered(requests)

    def test_a_full_queue_is_respected(self):
        with Cluster(router_flags=["--http-port", "0", "--ignore-eos", "allow", "--max-num-queued-reqs", "2"],
                     flags=["--max-num-seqs", "2"], eos_log=False) as cluster:
            self.address = cluster.router.ready["http"]
            requests = stories(40, tokens=30)
            self.write(requests)
            self.run_batch("--concurrency", "32")
            self.check_all_answered(requests)
            refused = cluster.router.metrics().sum("baton_request_errors_total", reason="QUEUE_FULL")
            self.assertGreater(refused, 0)


if __name__ == "__main__":
    unittest.main()
