"""A real Prometheus on loopback, which scrapes processes of a test and evaluates rules."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from cluster import Failure, wait_until  # noqa: E402


class Prometheus:
    """Scrapes each second. Use as a context manager.

    targets are HOST:PORT, labels what they get beside `job` and `instance`, rules files; past is text in the format of
    OpenMetrics, as of samples long ago.
    """

    def __init__(self, targets, labels=None, rules=(), past="", job="baton"):
        self._folder = tempfile.TemporaryDirectory(prefix="baton-prometheus-")
        path = pathlib.Path(self._folder.name)
        (path / "config.yaml").write_text(yaml.safe_dump({
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(rule) for rule in rules],
            "scrape_configs": [{"job_name": job, "static_configs": [
                {"targets": list(targets), "labels": labels or {}}]}]}))
        if past:
            (path / "past").write_text(past)
            subprocess.run(["promtool", "tsdb", "create-blocks-from", "openmetrics", path / "past", path / "data"],
                           check=True, stdout=subprocess.DEVNULL, timeout=60)
        self._log = open(path / "log", "w+", encoding="utf-8")
        self._process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "prometheus", f"--config.file={path}/config.yaml",
             f"--storage.tsdb.path={path}/data", "--web.listen-address=127.0.0.1:0"],
            stdout=subprocess.DEVNULL, stderr=self._log)

    def __enter__(self):
        try:
            self._address = wait_until(self._listening, "Prometheus to listen")
            wait_until(self._ready, "Prometheus to be ready")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        self._log.close()
        self._folder.cleanup()

    def _text(self):
        return pathlib.Path(self._log.name).read_text(encoding="utf-8")

    def _listening(self):
        if self._process.poll() is not None:
            raise Failure(f"Prometheus ended:\n{self._text()}")
        found = re.search(r'msg="Listening on" address=(127\.0\.0\.1:[1-9]\d*)', self._text())
        return found and found[1]

    def _ready(self):
        """It answers 503 until it has read what it stored before."""
        try:
            with urllib.request.urlopen(f"http://{self._address}/-/ready", timeout=10):
                return True
        except urllib.error.HTTPError:
            return False

    def get(self, path, **parameters):
        """What the API answers; a Failure with its words if it refuses."""
        words = urllib.parse.urlencode(parameters, doseq=True)
        try:
            with urllib.request.urlopen(f"http://{self._address}/api/v1/{path}?{words}", timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise Failure(f"{path} {parameters}: {error.read().decode()}") from error

    def series(self, query):
        """[(labels, value)] of the query's series now."""
        return [(one["metric"], float(one["value"][1])) for one in self.get("query", query=query)["result"]]

    def ask(self, query):
        """The values of the query's series."""
        return [value for _, value in self.series(query)]
