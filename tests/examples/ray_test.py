"""What examples/ray gives to Ray, without Ray: the actor that has batches answered, with the shipped binaries.

Ray itself is half a gigabyte, which a test is not worth; its calls are those of the example's main().
"""

import http.server
import importlib.util
import json
import os
import pathlib
import signal
import sys
import threading
import types
import unittest

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


class NoModelTest(unittest.TestCase):
    def test_a_service_that_does_not_start_is_told(self):
        with self.assertRaisesRegex(RuntimeError, "exit code 3"):
            load_example().Answers(str(BIN / "baton"), "/nonexistent", None)


if __name__ == "__main__":
    unittest.main()
