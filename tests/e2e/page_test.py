"""The router's page: its JSON under load, and, where Debian's chromium is, the page in a browser."""

import functools
import http.server
import json
import pathlib
import shutil
import tempfile
import threading
import unittest
import urllib.error
import urllib.request

import jsonschema

from cluster import ROOT, Cluster, wait_until

NUMBER, COUNT, TEXT = {"type": "number", "minimum": 0}, {"type": "integer", "minimum": 0}, {"type": "string"}
SERIES = {"type": "array", "items": NUMBER, "maxItems": 150}


def strict(**properties):
    return {"type": "object", "properties": properties, "required": list(properties),
            "additionalProperties": False}


SCHEMA = strict(
    model=TEXT, state={"enum": ["ready", "draining", "unhealthy"]}, uptime_s=NUMBER, workers_total=COUNT,
    workers={"type": "array", "maxItems": 100, "items": strict(
        address=TEXT, role={"enum": ["prefill", "decode"]},
        state={"enum": ["serving", "draining", "unreachable"]}, running=COUNT, waiting=COUNT,
        blocks_total=COUNT, blocks_in_use=COUNT, foreseen=COUNT, expected_tokens=NUMBER)},
    requests=strict(queued=COUNT, prefilling=COUNT, decoding=COUNT, answered=COUNT, failed=COUNT),
    foreseen=strict(sequences=COUNT, tokens=NUMBER),
    recent=strict(interval_s=NUMBER, requests_per_s=SERIES, prompt_tokens_per_s=SERIES,
                  output_tokens_per_s=SERIES, **{f"{kind}_ms_{q}": SERIES for kind in ("ttft", "gap")
                                                 for q in ("p50", "p95", "p99")}))
HOSTILE = "<img src=x onerror=\"document.title='struck'\"><script>document.title='struck'</script>"


def browser(width=1200, dark=False):
    """A headless chromium, or a skipped test."""
    if not shutil.which("chromium") or not shutil.which("chromedriver"):
        raise unittest.SkipTest("chromium or chromium-driver is not installed")
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
    except ImportError as error:
        raise unittest.SkipTest("python3-selenium is not installed") from error
    options = webdriver.ChromeOptions()
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    if dark:
        options.add_argument("--force-dark-mode")
    options.add_experimental_option("mobileEmulation", {"deviceMetrics": {
        "width": width, "height": 900, "pixelRatio": 1.0}})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)


def script(driver, text):
    return driver.execute_script(f"return {text}")


def assert_quiet(test, driver, address):
    """No error on the console, no request to elsewhere, nothing wider than the window."""
    test.assertEqual([entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"], [])
    for entry in driver.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            url = message["params"]["request"]["url"]
            test.assertTrue(url.startswith((f"http://{address}/", "data:")), url)
    test.assertLessEqual(script(driver, "document.documentElement.scrollWidth"),
                         script(driver, "window.innerWidth"))


class MadeUp(http.server.SimpleHTTPRequestHandler):
    """The page's files with a status that the test chose."""

    status = {}

    def do_GET(self):
        if self.path != "/api/status":
            return super().do_GET()
        body = json.dumps(self.status).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


class PageTest(unittest.TestCase):
    def test_under_load(self):
        with Cluster() as cluster:
            self.assertEqual(self.status(cluster)["requests"]["answered"], 0)
            stop = threading.Event()

            def load():
                while not stop.is_set():
                    cluster.generate([{"prompt": f"Tell me {i}", "max_tokens": 200, "eos": "mask"}
                                      for i in range(8)], concurrency=8)

            thread = threading.Thread(target=load)
            thread.start()
            try:
                wait_until(lambda: self.status(cluster)["requests"]["decoding"] > 0, "requests that decode")
                wait_until(lambda: any(self.status(cluster)["recent"]["gap_ms_p50"]), "gaps between tokens")
                recent = self.status(cluster)["recent"]
                self.assertTrue(any(recent["output_tokens_per_s"]) and any(recent["requests_per_s"]))
                self.look(cluster)
            finally:
                stop.set()
                thread.join()
            self.assertEqual(self.status(cluster)["requests"]["failed"], 0)
            cluster.decode[0].kill()
            wait_until(lambda: "unreachable" in [w["state"] for w in self.status(cluster)["workers"]],
                       "the dead worker to be shown")

    def status(self, cluster):
        status = json.loads(cluster.router.get("/api/status"))
        jsonschema.validate(status, SCHEMA)
        return status

    def look(self, cluster):
        try:
            driver = browser()
        except unittest.SkipTest as skipped:
            print(f"not looked at in a browser: {skipped}")
            return
        try:
            driver.get(f"http://{cluster.router.admin}/")
            address = cluster.decode[0].grpc
            wait_until(lambda: address in script(driver, "document.body.innerText"), "the worker on the page")
            before = script(driver, "document.getElementById('tiles').innerText")
            wait_until(lambda: script(driver, "document.getElementById('tiles').innerText") != before,
                       "numbers that move")
            assert_quiet(self, driver, cluster.router.admin)
        finally:
            driver.quit()

    def test_headers_and_refusals(self):
        with Cluster(prefill=0) as cluster:
            with urllib.request.urlopen(f"http://{cluster.router.admin}/", timeout=10) as answer:
                self.assertIn("default-src 'none'", answer.headers["Content-Security-Policy"])
                self.assertEqual(answer.headers["X-Content-Type-Options"], "nosniff")
            for path in ("/api/other", "/../etc/passwd"):
                with self.assertRaises(urllib.error.HTTPError) as caught:
                    cluster.router.get(path)
                self.assertEqual(caught.exception.code, 404)

    def test_hostile_names_none_and_many_on_a_phone(self):
        with tempfile.TemporaryDirectory() as folder:
            files = pathlib.Path(folder)
            shutil.copytree(ROOT / "router/page/files", files, dirs_exist_ok=True)
            server = http.server.ThreadingHTTPServer(
                ("127.0.0.1", 0), functools.partial(MadeUp, directory=folder))
            threading.Thread(target=server.serve_forever, daemon=True).start()
            try:
                driver = browser(width=360, dark=True)
                try:
                    for count in (0, 100):
                        self.phone(driver, f"127.0.0.1:{server.server_address[1]}", count)
                finally:
                    driver.quit()
            finally:
                server.shutdown()
                server.server_close()

    def phone(self, driver, address, count):
        worker = {"address": HOSTILE, "role": "decode", "state": HOSTILE, "running": 1, "waiting": 0,
                  "blocks_total": 9, "blocks_in_use": 3}
        series = {f"{kind}_ms_{q}": [1, 2] for kind in ("ttft", "gap") for q in ("p50", "p95", "p99")}
        MadeUp.status = {
            "model": HOSTILE, "state": "ready", "workers_total": 10 * count, "workers": [worker] * count,
            "requests": dict.fromkeys(("queued", "prefilling", "decoding", "answered", "failed"), 0),
            "foreseen": {"sequences": 0, "tokens": 0},
            "recent": {"requests_per_s": [], "prompt_tokens_per_s": [], "output_tokens_per_s": [], **series}}
        driver.get(f"http://{address}/")
        wait_until(lambda: HOSTILE in script(driver, "document.getElementById('model').textContent"), "the model")
        self.assertEqual(script(driver, "document.querySelectorAll('#workers tr').length"), count)
        self.assertEqual(script(driver, "document.querySelectorAll('img').length"), 0)
        self.assertEqual(driver.title, "Baton")
        note = script(driver, "document.getElementById('workers-note').textContent")
        self.assertIn("100 of 1000" if count else "No workers", note)
        assert_quiet(self, driver, address)


if __name__ == "__main__":
    unittest.main()
