"""What examples/ray gives to Ray, without Ray: the actor that has batches answered, with the shipped binaries.

Ray itself is half a gigabyte, which a test is not worth; its calls are those of the example's main().
"""

import contextlib
import http.server
import importlib.util
import io
import json
import os
import pathlib
import signal
import sys
import tempfile
import threading
import types
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/e2e"))
from cluster import BIN, DEMO_MODEL  # noqa: E402


def load_example():
    sys.modules["ray"] = types.ModuleType("ray")
    spec = importlib.util.spec_from_file_location("batch_example", ROOT / "examples/ray/batch.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def line(custom_id, **body):
    return json.dumps({"custom_id": custom_id, "method": "POST", "url": "/v1/completions", "body": body})


class RayExampleTest(unittest.TestCase):
    def setUp(self):
        self.answers = load_example().Answers(str(BIN / "baton"), str(DEMO_MODEL), None)
        self.addCleanup(self.end)

    def end(self):
        service = self.answers._service  # pylint: disable=protected-access
        os.kill(service.pid, signal.SIGTERM)
        service.wait()
        service.stdout.close()

    def test_an_actor_answers_batch_after_batch(self):
        for first in (0, 10):
            names = [f"r{first + i}" for i in range(5)]
            given = [line(name, prompt="A fox", max_tokens=3) for name in names]
            found = [json.loads(text) for text in self.answers({"text": [*given, ""]})["text"]]
            self.assertEqual(sorted(one["custom_id"] for one in found), sorted(names))
            self.assertEqual({one["response"]["status_code"] for one in found}, {200})

    def test_errors_of_lines_are_answers_and_others_are_raised(self):
        [wrong] = self.answers({"text": [line("x", prompt="A fox", max_tokens=-1)]})["text"]
        self.assertEqual(json.loads(wrong)["response"]["status_code"], 400)
        with self.assertRaisesRegex(RuntimeError, "stands in line 1 already"):
            self.answers({"text": [line("x", prompt="a")] * 2})


class Separators(http.server.BaseHTTPRequestHandler):
    """Answers with what Unicode counts as ends of lines, and JSON does not."""

    def reply(self, body):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body.encode())

    def do_GET(self):  # pylint: disable=invalid-name
        self.reply("{}")

    def do_POST(self):  # pylint: disable=invalid-name
        self.rfile.read(int(self.headers["Content-Length"]))
        self.reply('{"text": "one\u2028two\u0085three"}')

    def log_message(self, *_):  # pylint: disable=arguments-differ
        pass


class SeparatorsTest(unittest.TestCase):
    def test_an_answer_ends_at_its_line_break_only(self):
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Separators) as server:
            threading.Thread(target=server.serve_forever).start()
            address = f"http://127.0.0.1:{server.server_address[1]}"
            answers = load_example().Answers(str(BIN / "baton"), None, address)
            try:
                [found] = answers({"text": [line("a", prompt="A fox")]})["text"]
            finally:
                server.shutdown()
        self.assertEqual(json.loads(found)["response"]["body"]["text"], "one\u2028two\u0085three")


FAKE_BATON = """#!/bin/sh
echo "$*" >> "$0.log"
case $1 in
  serve) echo '{"http": "http://127.0.0.1:1"}'; exec sleep 100 ;;
  batch) echo '{"response": {"status_code": 200}}' > "$3" ;;
esac
"""


class OneActor:
    """Stands for Ray: one actor, in this process, has the first line as its only batch."""

    def __init__(self, test):
        self.data, self._test = self, test

    def init(self, **_):
        pass

    def read_text(self, path):
        self._line = pathlib.Path(path).read_text(encoding="utf-8").splitlines()[0]
        return self

    def map_batches(self, actor, fn_constructor_args, num_gpus, **_):
        self.gpus = num_gpus
        self._actor = actor(*fn_constructor_args)
        service = self._actor._service  # pylint: disable=protected-access
        if service:
            self._test.addCleanup(service.stdout.close)
            self._test.addCleanup(service.wait)
            self._test.addCleanup(service.terminate)
        return self

    def iter_rows(self):
        return [{"text": text} for text in self._actor({"text": [self._line]})["text"]]


class CommandTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="baton-ray-")))
        self.baton = self.folder / "baton"
        self.baton.write_text(FAKE_BATON)
        self.baton.chmod(0o755)
        (self.folder / "in").write_text(line("a", prompt="A fox") + "\n")
        self.example = load_example()
        self.example.ray = OneActor(self)

    def run_with(self, *flags):
        """The command lines of `baton` that come of the flags."""
        files = [str(self.folder / name) for name in ("in", "out")]
        with (unittest.mock.patch.object(sys, "argv", ["batch.py", *files, "--baton", str(self.baton), *flags]),
              contextlib.redirect_stdout(io.StringIO())):
            self.assertEqual(self.example.main(), 0)
        return pathlib.Path(f"{self.baton}.log").read_text().splitlines()

    def test_an_actor_that_has_gpus_computes_on_them(self):
        serve, _ = self.run_with("--model", "m", "--gpus", "0.5")
        self.assertEqual(self.example.ray.gpus, 0.5)
        self.assertIn(" --device cuda", serve)

    def test_one_without_computes_on_cpus(self):
        serve, _ = self.run_with("--model", "m")
        self.assertNotIn("--device", serve)

    def test_flags_for_the_service_reach_it(self):
        serve, _ = self.run_with("--model", "m", "--serve-flag=--mode=unified", "--serve-flag=--threads=4")
        self.assertTrue(serve.endswith(" --mode=unified --threads=4"), serve)

    def test_what_nobody_would_use_is_refused(self):
        for flag in ("--gpus=1", "--serve-flag=--threads=4"):
            with contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit):
                self.run_with("--server", "http://127.0.0.1:1", flag)
            self.assertIn("--model", said.getvalue())


class NoModelTest(unittest.TestCase):
    def test_a_service_that_does_not_start_is_told(self):
        with self.assertRaisesRegex(RuntimeError, "exit code 3"):
            load_example().Answers(str(BIN / "baton"), "/nonexistent", None)


if __name__ == "__main__":
    unittest.main()
