"""A service is asked directly, whatever proxy the environment names."""

import concurrent.futures
import http.server
import os
import pathlib
import sys
import tempfile
import threading
import unittest
import unittest.mock

import grpc

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import compare_servers  # noqa: E402
import eos_dataset  # noqa: E402
import scheduling_service  # noqa: E402
import sim_check  # noqa: E402

TOKEN_IDS = b"\x0a\x02\x07\x09"  # TokenizeResponse with the ids 7 and 9


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):  # pylint: disable=invalid-name
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"a 1\n")

    def log_message(self, *_):  # pylint: disable=arguments-differ
        pass


class ProxyTest(unittest.TestCase):
    def setUp(self):
        # Nobody listens there. Names in capitals count as well.
        nowhere = {name: "http://127.0.0.1:1" for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "grpc_proxy")}
        nobody = dict.fromkeys(("no_proxy", "NO_PROXY", "no_grpc_proxy"), "")
        environment = unittest.mock.patch.dict(os.environ, {**nowhere, **nobody})
        environment.start()
        self.addCleanup(environment.stop)

    def serve_page(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
        threading.Thread(target=server.serve_forever).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f"127.0.0.1:{server.server_address[1]}"

    def test_pages(self):
        address = self.serve_page()
        self.assertTrue(compare_servers.answers(f"http://{address}/health"))
        self.assertEqual(scheduling_service.read(address), "a 1\n")

    def test_pages_beside_a_load(self):
        with tempfile.TemporaryDirectory() as folder:
            with sim_check.Pages(self.serve_page(), pathlib.Path(folder)) as pages:
                pass
            self.assertEqual(pathlib.Path(pages.paths[0]).read_text(), "a 1\n")

    def test_tokens(self):
        handler = grpc.unary_unary_rpc_method_handler(lambda request, context: TOKEN_IDS)
        server = grpc.server(concurrent.futures.ThreadPoolExecutor(1))
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(
            "baton.v1.InferenceService", {"Tokenize": handler})])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.addCleanup(server.stop, None)
        tokenizer = eos_dataset.ServerTokenizer(f"127.0.0.1:{port}")
        self.addCleanup(tokenizer.close)
        self.assertEqual(tokenizer.encode("a fox"), [7, 9])


if __name__ == "__main__":
    unittest.main()
