"""The committed dashboards, read as Grafana would."""

import json
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy/grafana/dashboards"


def read():
    """uid -> dashboard."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))]
    return {one["uid"]: one for one in found}


def panels(dashboard):
    """All panels that show something, those of folded rows too."""
    for one in dashboard["panels"]:
        if one["type"] != "row":
            yield one
        yield from (inner for inner in one.get("panels", []) if inner["type"] != "row")


def variables(dashboard):
    return {one["name"]: one for one in dashboard["templating"]["list"]}


def chosen(variable):
    """What Grafana puts in the place of a variable that nobody touched."""
    value = variable["current"].get("value")
    return variable["allValue"] if value == ["$__all"] else value


def filled(expression, dashboard, interval, span):
    """The expression as Grafana would send it, with $__rate_interval and $__range as given."""
    values = {"__rate_interval": interval, "__range": span,
              **{name: chosen(one) for name, one in variables(dashboard).items()}}
    text = re.sub(r"\$(\w+)", lambda found: values[found[1]], expression)
    return text
