"""The metric table of the binaries, and expressions that are held against it.

Expressions are written as short as one thinks them, `rate(baton_x_total{stage="ack"}[5m])`. `scoped` checks every
series in them and adds the matchers by which a dashboard or a rule chooses what it is about.
"""

import json
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("BATON_BIN", ROOT / "build/cpu/bin"))
# Labels that every series of ours has beside those of the table; the first two come from Prometheus.
COMMON = ("job", "instance", "namespace", "model_name", "engine", "role")
_SERIES = re.compile(r'\b((?:baton[_:]|process_)[a-z0-9_:]+)(?:\{((?:[^}"]|"[^"]*")*)\})?')
_MATCHER = re.compile(r'([a-z_]+)(=~|!~|!=|=)"([^"]*)"')
_HISTOGRAM = re.compile(r"_(bucket|sum|count)$")


class Wrong(Exception):
    """An expression names what the binaries do not have."""


def read():
    """name -> {"type", "owners", "labels", "buckets", "help"}, as the binary tells it."""
    command = [str(BIN / "baton"), "metrics", "list", "--json"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise SystemExit(f"the metric table comes from {command[0]}, which does not run ({error}); "
                         "build it, or set BATON_BIN to the folder with the binaries") from error
    return {one["name"]: one for one in json.loads(told)}


class Table:
    """The table, and the series that recording rules add to it."""

    def __init__(self, metrics, recorded=()):
        self._metrics = metrics
        self._recorded = dict(recorded)  # name -> labels

    def metric(self, series):
        """The name in the table of what a series belongs to."""
        for name in (series, _HISTOGRAM.sub("", series)):
            if name in self._metrics and (self._metrics[name]["type"] == "histogram") == (name != series):
                return name
        raise Wrong(f"there is no series {series}; `baton metrics list` has what there is")

    def owners(self, series):
        return self._metrics[self.metric(series)]["owners"]

    def buckets(self, name):
        return self._metrics[name]["buckets"]

    def names(self, expression):
        """The metrics and recorded series of an expression, in order of appearance."""
        found = []
        for series, _ in _SERIES.findall(expression):
            name = series if series in self._recorded else self.metric(series)
            if name not in found:
                found.append(name)
        return found

    def check(self, expression):
        for series, matchers in _SERIES.findall(expression):
            if series in self._recorded:
                known = {label: None for label in self._recorded[series]}
            else:
                metric = self._metrics[self.metric(series)]
                known = {**metric["labels"], "role": metric["owners"]}
                if metric["type"] == "histogram":
                    known["le"] = None
            for label, operator, text in _MATCHER.findall(matchers):
                if label not in known and label not in COMMON:
                    raise Wrong(f"{series} has no label {label}, but {', '.join(known) or 'none'}")
                if label == "le":
                    self._check_bound(series, text)
                elif known.get(label) and "$" not in text:
                    self._check_values(series, label, text.split("|") if "~" in operator else [text], known[label])

    @staticmethod
    def _check_values(series, label, named, known):
        for value in named:
            if value not in known:
                raise Wrong(f"{series}: {label} is never {value}, but {', '.join(known)}")

    def _check_bound(self, series, text):
        if text.startswith("$"):
            return
        bounds = self.buckets(self.metric(series))
        # 2.5 is written alike by every version of Prometheus, 2 is "2" to some and "2.0" to others.
        if float(text) not in bounds or float(text) == int(float(text)):
            raise Wrong(f"{series} has no bucket le={text} that is written with a point; take one of {bounds}")

    def scoped(self, expression, scope):
        """The expression with matchers added; `scope(owners, matchers)` gives those of one series.

        Owners are () for series that recording rules made, None for process_*, which bear no labels of ours.
        """
        self.check(expression)

        def widen(found):
            series, own = found[1], found[2] or ""
            owners = () if series in self._recorded else self.owners(series)
            if series.startswith("process_"):
                owners = None
            parts = [part for part in (own, *scope(owners, own)) if part]
            return series + "{" + ",".join(parts) + "}" if parts else series

        return _SERIES.sub(widen, expression)
