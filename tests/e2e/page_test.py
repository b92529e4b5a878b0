"""The router's page: its JSON under load, and, where Debian's chromium is, the page in a browser."""

import functools
import http.server
import json
import pathlib
import re
import shutil
import tempfile
import threading
import unittest
import urllib.error
import urllib.request

import jsonschema

from cluster import ROOT, Cluster, begin, wait_until

NUMBER, COUNT, TEXT = {"type": "number", "minimum": 0}, {"type": "integer", "minimum": 0}, {"type": "string"}
FORESEEN = ("expected_remaining", "p50", "p90")
CHANCE = {"type": "number", "minimum": 0, "maximum": 1}
SERIES = {"type": "array", "items": NUMBER, "maxItems": 150}


def strict(**properties):
    return {"type": "object", "properties": properties, "required": list(properties),
            "additionalProperties": False}


SCHEMA = strict(
    model=TEXT, state={"enum": ["ready", "draining", "unhealthy"]}, uptime_s=NUMBER, workers_total=COUNT,
    http={"anyOf": [{"type": "null"}, strict(
        port=COUNT, tls={"type": "boolean"}, keys={"type": "boolean"}, presets={"type": "array", "items": TEXT})]},
    workers={"type": "array", "maxItems": 100, "items": strict(
        address=TEXT, role={"enum": ["prefill", "decode"]},
        state={"enum": ["serving", "other_role", "draining", "unreachable"]}, running=COUNT, waiting=COUNT,
        blocks_total=COUNT, blocks_in_use=COUNT, foreseen=COUNT, expected_tokens=NUMBER)},
    requests=strict(queued=COUNT, reserving=COUNT, prefilling=COUNT, decoding=COUNT, answered=COUNT,
                    failed=COUNT),
    oldest={"type": "array", "maxItems": 20, "items": strict(
        id={"type": "string", "maxLength": 25}, stage={"enum": ["queued", "reserving", "prefilling", "decoding"]},
        age_s=NUMBER, prompt_tokens=COUNT, tokens=COUNT,
        foreseen={"anyOf": [{"type": "null"}, strict(**dict.fromkeys(FORESEEN, NUMBER))]})},
    eos=strict(
        watched=COUNT, sample=COUNT,
        answers={"type": "array", "maxItems": 32, "items": strict(
            id=TEXT, finish_reason=TEXT, tokens=COUNT, steps_per_cell=COUNT,
            eos_prob={"type": "array", "maxItems": 64, "items": CHANCE})},
        calibration={"type": "array", "minItems": 5, "maxItems": 5, "items": strict(
            within=COUNT, bins={"type": "array", "minItems": 10, "maxItems": 10, "items": strict(
                estimates=NUMBER, said=CHANCE, ended=CHANCE, unknown=CHANCE)})}),
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


def assert_quiet(test, driver, *addresses):
    """No error on the console, no request to elsewhere, nothing wider than the window."""
    test.assertEqual([entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"], [])
    for entry in driver.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            url = message["params"]["request"]["url"]
            test.assertTrue(url.startswith((*(f"http://{address}/" for address in addresses), "data:")), url)
    test.assertLessEqual(script(driver, "document.documentElement.scrollWidth"),
                         script(driver, "window.innerWidth"))


class MadeUp(http.server.SimpleHTTPRequestHandler):
    """The page's files with a status, and answers of the HTTP port, that the test chose."""

    status, events = {}, []

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        body = "".join(f"data: {json.dumps(event)}\n\n" for event in self.events).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/playground":
            self.path += ".html"
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
        # Without an EOS log: what the page knows of ends, the router asked for on its own.
        with Cluster(eos_log=False) as cluster:
            status = self.status(cluster)
            self.assertEqual(status["requests"]["answered"], 0)
            self.assertIsNone(status["http"])
            self.assertEqual(status["eos"]["answers"], [])
            stop = threading.Event()

            def load():
                while not stop.is_set():
                    cluster.generate([{"prompt": f"Tell me {i}", "max_tokens": 200, "eos": "mask"}
                                      for i in range(4)] +
                                     [{"messages": [{"role": "user", "content": "List 5 animals."}]}
                                      for _ in range(4)], concurrency=8)

            asked = begin(load)
            try:
                wait_until(lambda: self.status(cluster)["requests"]["decoding"] > 0, "requests that decode")
                wait_until(lambda: any(self.status(cluster)["recent"]["gap_ms_p50"]), "gaps between tokens")
                self.ends_are_known(cluster)
                recent = self.status(cluster)["recent"]
                self.assertTrue(any(recent["output_tokens_per_s"]) and any(recent["requests_per_s"]))
                self.look(cluster)
            finally:
                stop.set()
                asked.result()
            self.assertEqual(self.status(cluster)["requests"]["failed"], 0)
            cluster.decode[0].kill()
            wait_until(lambda: "unreachable" in [w["state"] for w in self.status(cluster)["workers"]],
                       "the dead worker to be shown")

    def ends_are_known(self, cluster):
        def estimates():
            bins = self.status(cluster)["eos"]["calibration"][2]["bins"]
            came = sum(one["estimates"] * one["ended"] for one in bins)
            return 1 < came < sum(one["estimates"] for one in bins) - 1
        wait_until(estimates, "predictions that were held against what came")
        wait_until(lambda: any(one["foreseen"] for one in self.status(cluster)["oldest"]),
                   "a request whose end is foreseen")
        answers = self.status(cluster)["eos"]["answers"]
        natural = [answer for answer in answers if answer["finish_reason"] == "stop_eos"]
        self.assertTrue(natural, answers)
        for answer in natural:
            self.assertGreater(answer["eos_prob"][-1], 0.01)

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
            wait_until(lambda: script(driver, "document.querySelectorAll('#oldest tr').length") > 0, "requests")
            for place in ("#heat rect", "#calibration circle", "#charts polyline"):
                wait_until(lambda: script(driver, f"document.querySelectorAll('{place}').length") > 0, place)
            driver.get(f"http://{cluster.router.admin}/playground")
            wait_until(lambda: "--http-port" in script(driver, "document.getElementById('progress').textContent"),
                       "the reason why the playground has nobody to ask")
            self.assertTrue(script(driver, "document.getElementById('send').disabled"))
            assert_quiet(self, driver, cluster.router.admin)
        finally:
            driver.quit()

    def test_headers_and_refusals(self):
        with Cluster(prefill=0, router_flags=["--http-port", "0"]) as cluster:
            http_address = cluster.router.ready["http"]
            self.assertEqual(self.status(cluster)["http"]["port"], int(http_address.rpartition(":")[2]))
            pages = {"/": "text/html", "/playground": "text/html", "/page.css": "text/css", "/now.js": "text/javascript"}
            for path, kind in pages.items():
                with urllib.request.urlopen(f"http://{cluster.router.admin}{path}", timeout=10) as answer:
                    policy = answer.headers["Content-Security-Policy"]
                    self.assertIn("default-src 'none'", policy)
                    self.assertIn(f"connect-src 'self' http://{http_address};", policy)
                    self.assertEqual(answer.headers["X-Content-Type-Options"], "nosniff")
                    self.assertTrue(answer.headers["Content-Type"].startswith(kind))
            # What a browser asks before the playground's request.
            preflight = urllib.request.Request(f"http://{http_address}/v1/chat/completions", method="OPTIONS", headers={
                "Origin": f"http://{cluster.router.admin}", "Access-Control-Request-Method": "POST",
                "Access-Control-Request-Headers": "authorization,content-type"})
            with urllib.request.urlopen(preflight, timeout=10) as answer:
                self.assertEqual(answer.headers["Access-Control-Allow-Origin"], f"http://{cluster.router.admin}")
            for path in ("/api/other", "/../etc/passwd"):
                with self.assertRaises(urllib.error.HTTPError) as caught:
                    cluster.router.get(path)
                self.assertEqual(caught.exception.code, 404)

    def test_playground(self):
        try:
            driver = browser(width=390)
        except unittest.SkipTest:
            self.skipTest("no browser")
        try:
            with tempfile.NamedTemporaryFile("w", suffix=".keys") as keys:
                keys.write("red:key-of-red\n")
                keys.flush()
                with Cluster(router_flags=["--http-port", "0", "--api-keys", keys.name]) as cluster:
                    self.play(driver, cluster)
        finally:
            driver.quit()

    def play(self, driver, cluster):
        def progress():
            return script(driver, "document.getElementById('progress').textContent")

        def send(done, **fields):
            for name, value in fields.items():
                driver.execute_script(
                    "document.getElementById(arguments[0]).value = arguments[1]", name, str(value))
            driver.execute_script("document.getElementById('send').click()")
            wait_until(lambda: re.search(done, progress()), f"{done!r}, not {progress()!r}")

        driver.get(f"http://{cluster.router.admin}/playground")
        wait_until(lambda: not script(driver, "document.getElementById('send').disabled"), "the port")
        send("^401", prompt="List 5 animals.")
        self.assertIn("--api-keys", script(driver, "document.getElementById('error').textContent"))
        # The refusal itself is an error on the console, and the only one.
        self.assertTrue(all("401" in entry["message"] for entry in driver.get_log("browser")))
        send("^Done", key="key-of-red", temperature=0.8, seed=7)
        text = script(driver, "[...document.querySelectorAll('.token:not(.bare)')].map((t) => t.textContent).join('')")
        self.assertIn("5.", text)
        self.assertGreater(script(driver, "document.querySelectorAll('.token.shade6').length"), 0)
        for place in ("#curve polyline", "#remaining polygon", "#timeline .stage"):
            self.assertGreater(script(driver, f"document.querySelectorAll('{place}').length"), 0, place)
        driver.execute_script("[...document.querySelectorAll('.token')].pop().click()")
        figures = script(driver, "document.getElementById('token').textContent")
        self.assertRegex(figures, r"chance of the end \d+(\.\d+)? %")
        driver.execute_script("document.querySelector('.token').click()")
        figures = script(driver, "document.getElementById('token').textContent")
        for word in ("Token", "chance of the end", "tokens to come", "entropy"):
            self.assertIn(word, figures)
        # A prompt whose continuation is text, given on; what is HTML in it stays text.
        send("^Done", api="completion", prompt=HOSTILE, max_tokens=8, eos="mask", preset="creative")
        driver.execute_script("document.getElementById('form').oninput()")
        self.assertIn('"preset":"creative"', script(driver, "document.getElementById('curl').textContent"))
        self.assertEqual(script(driver, "document.querySelectorAll('.token').length"), 8)
        driver.execute_script("document.querySelector('.token').click()")
        self.assertIn("most likely were", script(driver, "document.getElementById('token').textContent"))
        self.assertEqual(script(driver, "document.querySelectorAll('img').length"), 0)
        self.assertNotEqual(driver.title, "struck")
        send("^400", temperature=-1, prompt="x")
        self.assertIn('"param":"temperature"', script(driver, "document.getElementById('error').textContent"))
        driver.get_log("browser")  # the refusal
        send("tokens$", temperature=1, max_tokens=1800, eos="mask")
        driver.execute_script("document.getElementById('cancel').click()")
        wait_until(lambda: progress().startswith("Stopped by you"), progress())
        wait_until(lambda: self.status(cluster)["requests"]["decoding"] == 0, "the request to be cancelled")
        assert_quiet(self, driver, cluster.router.admin, cluster.router.ready["http"])

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
                    self.broken_answer(driver, server.server_address[1])
                finally:
                    driver.quit()
            finally:
                server.shutdown()
                server.server_close()

    def broken_answer(self, driver, port):
        """Several tokens in one event, text of none, what is no chance, and an error at the end."""
        row = {"step": 1, "eos_prob": None, "eos_prob_sampling": 0, "eos_rank": 1, "entropy": 0}
        MadeUp.status = {"model": HOSTILE, "http": {"port": port, "tls": False, "keys": True}}
        MadeUp.events = [
            {"choices": [{"delta": {"role": "assistant", "content": ""}, "finish_reason": None}]},
            {"choices": [{"delta": {"content": HOSTILE}, "logprobs": {"content": [
                {"token": HOSTILE, "logprob": -1, "top_logprobs": [{"token": HOSTILE, "logprob": -1}]}] * 2},
                "finish_reason": None}], "baton": {"token_ids": [1, 2], "eos": [row, {**row, "step": 2}]}},
            {"choices": [{"delta": {}, "finish_reason": None}], "baton": {"token_ids": [], "eos": [], "prediction": {
                "at_step": 2, "expected_remaining": 5.5, "p50": 3, "p90": 9, "within": {"1": 0.1}}}},
            {"choices": [{"delta": {"content": HOSTILE}, "finish_reason": None}]},
            {"error": {"message": HOSTILE, "type": "server_error", "param": None, "code": "drained"}}]
        driver.get(f"http://127.0.0.1:{port}/playground")
        wait_until(lambda: not script(driver, "document.getElementById('send').disabled"), "the port")
        driver.execute_script("document.getElementById('send').click()")
        wait_until(lambda: "broke off" in script(driver, "document.getElementById('progress').textContent"), "the end")
        self.assertIn("drained", script(driver, "document.getElementById('error').textContent"))
        self.assertIn(2 * HOSTILE, script(driver, "document.getElementById('answer').textContent").replace("·", ""))
        driver.execute_script("document.querySelectorAll('.token')[1].click()")
        self.assertIn("5.5", script(driver, "document.getElementById('token').textContent"))
        self.assertEqual(script(driver, "document.querySelectorAll('img, section script').length"), 0)
        self.assertEqual(driver.title, "Baton: playground")
        assert_quiet(self, driver, f"127.0.0.1:{port}")

    def phone(self, driver, address, count):
        worker = {"address": HOSTILE, "role": "decode", "state": HOSTILE, "running": 1, "waiting": 0,
                  "blocks_total": 9, "blocks_in_use": 3}
        series = {f"{kind}_ms_{q}": [1, 2] for kind in ("ttft", "gap") for q in ("p50", "p95", "p99")}
        MadeUp.status = {
            "model": HOSTILE, "state": "ready", "workers_total": 10 * count, "workers": [worker] * count,
            "requests": dict.fromkeys(("queued", "reserving", "prefilling", "decoding", "answered", "failed"), count),
            "oldest": [{"id": HOSTILE, "stage": HOSTILE, "age_s": 1, "prompt_tokens": 1, "tokens": 1,
                        "foreseen": None}] * min(count, 20),
            "eos": {"watched": 0, "sample": 64, "answers": [
                {"id": HOSTILE, "finish_reason": HOSTILE, "tokens": 300, "steps_per_cell": 8,
                 "eos_prob": [1e-5] * 37 + [1]}] * min(count, 32), "calibration": [
                     {"within": 16, "bins": [{"estimates": 1, "said": 0.5, "ended": 0.5, "unknown": 0.2}] * 10}]},
            "foreseen": {"sequences": 0, "tokens": 0},
            "recent": {"interval_s": 2, "requests_per_s": [], "prompt_tokens_per_s": [], "output_tokens_per_s": [], **series}}
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
