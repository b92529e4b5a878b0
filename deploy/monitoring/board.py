"""Dashboards as Grafana stores them, made from short descriptions.

A board is rows, a row is panels, a panel is a question: title, what the answer means, its unit and the
expressions. Places, ids, selectors and variables are added here.
"""

import dataclasses
import re

from table import Wrong

SCHEMA_VERSION = 39
WIDTH = 24  # columns of Grafana's grid
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
BOARDS = (  # (uid, title), in the order of the links
    ("baton-overview", "Baton / Overview"),
    ("baton-disaggregation", "Baton / Disaggregation"),
    ("baton-workers", "Baton / Workers"),
    ("baton-kv-cache", "Baton / KV cache"),
    ("baton-eos", "Baton / EOS and prediction"),
    ("baton-benchmark", "Baton / Benchmark"),
)


@dataclasses.dataclass
class Panel:
    """One question. `targets` are (expression, legend); times are written [$__rate_interval]."""

    title: str
    about: str
    unit: str
    targets: list
    kind: str = "timeseries"  # or stat, bargauge, heatmap, table
    wide: int = 8
    high: int = 7
    stack: bool = False
    beside: tuple = ()         # legends that are lines of their own where the others are stacked
    top: float | None = None   # the end of the scale
    steps: tuple = ()          # ((bound, colour), ...): colours from a bound on
    base: str = "green"        # the colour below them
    columns: dict = dataclasses.field(default_factory=dict)  # of a table: field -> (title, unit)
    foreign: bool = False      # expressions over series of others, which are not in our table


@dataclasses.dataclass
class Row:
    title: str
    panels: list
    folded: bool = False


@dataclasses.dataclass
class Board:
    uid: str
    about: str
    rows: list
    variables: tuple = ()  # further ones, as choice() makes them


def choice(name, label, values, chosen):
    """A variable that offers a few values."""
    return {"name": name, "label": label, "type": "custom", "query": ",".join(values), "hide": 0,
            "multi": False, "includeAll": False, "skipUrlSync": False,
            "current": {"selected": True, "text": chosen, "value": chosen},
            "options": [{"selected": one == chosen, "text": one, "value": one} for one in values]}


def rate(series, by=""):
    """The sum per second of all series of a counter, or of those of each group."""
    return f"sum{f' by ({by})' if by else ''} (rate({series}[$__rate_interval]))"


def seen(series, by, none):
    """The same, of groups that have any; where none has, one line of zeros with that legend."""
    label = by.split(", ")[-1]
    return f'{rate(series, by)} > 0 or label_replace({rate(series)} == 0, "{label}", "{none}", "", "")'


def quantile(q, histogram, by="", matchers=""):
    groups = ", ".join(["le", *([by] if by else [])])
    return (f"histogram_quantile({q}, sum by ({groups}) "
            f"(rate({histogram}_bucket{matchers}[$__rate_interval])))")


def quantiles(histogram, matchers=""):
    """The usual three of a histogram."""
    return [(quantile(q, histogram, matchers=matchers), f"p{int(q * 100)}") for q in (0.5, 0.95, 0.99)]


def mean(histogram, matchers="", by=""):
    by = f" by ({by})" if by else ""
    parts = [f"sum{by} (rate({histogram}_{part}{matchers}[$__rate_interval]))" for part in ("sum", "count")]
    return " / ".join(parts)


def of_baton(expression):
    """process_* of our processes only: others have series of these names, too. Adds role and model_name."""
    return f"{expression} * on (namespace, job, instance) group_left (role, model_name) baton_build_info"


def _scope(owners, own):
    common = ['namespace=~"$namespace"', 'job=~"$job"', 'instance=~"$instance"']
    if owners is None:
        return common
    common.append('model_name=~"$model_name"')
    # What one role alone has would be empty when another is chosen.
    if len(owners) > 1 and not re.search(r"\brole[=!]", own):
        common.append('role=~"$role"')
    return common


def _query_variable(name, label, every, by):
    """One that offers the values that a label has with what was chosen `by`; `every` stands for all of them."""
    chosen = "{" + ",".join(f'{one}=~"${one}"' for one in by) + "}" if by else ""
    return {"name": name, "label": label, "type": "query", "datasource": SOURCE, "hide": 0,
            "query": {"query": f"label_values(baton_build_info{chosen}, {name})", "refId": f"variable-{name}"},
            "refresh": 2, "regex": "", "sort": 1,
            "multi": True, "includeAll": True, "allValue": every, "skipUrlSync": False, "options": [],
            "current": {"selected": True, "text": ["All"], "value": ["$__all"]}}


def _variables(extra):
    source = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus",
              "hide": 0, "multi": False, "includeAll": False, "refresh": 1, "regex": "", "skipUrlSync": False,
              "options": [], "current": {}}
    # Outside of Kubernetes there is no namespace, which .* matches and .+ does not.
    named = [("namespace", "Namespace", ".*"), ("job", "Job", ".+"), ("model_name", "Model", ".+"),
             ("role", "Role", ".+"), ("instance", "Instance", ".+")]
    before = [[name for name, _, _ in named[:number]] for number in range(len(named))]
    return [source, *(_query_variable(*one, by) for one, by in zip(named, before)), *extra]


def _field(panel):
    custom = {}
    if panel.kind == "timeseries":
        custom = {"drawStyle": "line", "lineWidth": 1, "fillOpacity": 40 if panel.stack else 8,
                  "showPoints": "never", "spanNulls": False,
                  "stacking": {"mode": "normal" if panel.stack else "none", "group": "A"}}
    defaults = {
        "unit": panel.unit, "min": 0, "custom": custom,
        "color": {"mode": "thresholds" if panel.steps else "palette-classic"},
        "thresholds": {"mode": "absolute", "steps": [
            {"color": panel.base, "value": None}, *({"color": colour, "value": at} for at, colour in panel.steps)]},
        "mappings": [{"type": "special", "options": {
            "match": "null+nan", "result": {"text": "no traffic", "color": "text", "index": 0}}}]}
    if panel.kind == "timeseries":
        defaults["color"] = {"mode": "palette-classic"}
        if panel.steps:
            defaults["custom"]["thresholdsStyle"] = {"mode": "line"}
    if panel.top is not None:
        defaults["max"] = panel.top
    overrides = [{"matcher": {"id": "byName", "options": title},
                  "properties": [{"id": "unit", "value": unit}]} for title, unit in panel.columns.values()]
    overrides += [{"matcher": {"id": "byName", "options": legend},
                   "properties": [{"id": "custom.stacking", "value": {"mode": "none", "group": "A"}},
                                  {"id": "custom.fillOpacity", "value": 0},
                                  {"id": "custom.lineWidth", "value": 2}]} for legend in panel.beside]
    return {"defaults": defaults, "overrides": overrides}


def _options(panel):
    reduce = {"calcs": ["lastNotNull"], "fields": "", "values": False}
    return {
        "timeseries": {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
                       "tooltip": {"mode": "multi", "sort": "desc"}},
        "stat": {"colorMode": "value", "graphMode": "area", "justifyMode": "auto", "orientation": "auto",
                 "textMode": "auto", "reduceOptions": reduce},
        "bargauge": {"displayMode": "gradient", "orientation": "vertical", "showUnfilled": True,
                     "reduceOptions": reduce},
        "heatmap": {"calculate": False, "cellGap": 1, "yAxis": {"axisPlacement": "left", "unit": panel.unit},
                    "color": {"mode": "scheme", "scheme": "Oranges", "exponent": 0.5, "steps": 64},
                    "legend": {"show": True}, "tooltip": {"mode": "single", "yHistogram": False}},
        "table": {"showHeader": True, "cellHeight": "sm"},
    }[panel.kind]


def _target(panel, number, expression, legend):
    at_once = panel.kind in ("bargauge", "table")
    return {"refId": chr(ord("A") + number), "datasource": SOURCE, "editorMode": "code", "expr": expression,
            "legendFormat": legend, "range": not at_once, "instant": at_once,
            "format": {"heatmap": "heatmap", "table": "table"}.get(panel.kind, "time_series")}


def _table_transformations(panel):
    """One line per series: the results side by side, the named columns only."""
    order = {field: place for place, field in enumerate(panel.columns)}
    return [{"id": "merge", "options": {}},
            {"id": "filterFieldsByName", "options": {"include": {"names": list(panel.columns)}}},
            {"id": "organize", "options": {
                "excludeByName": {}, "indexByName": order,
                "renameByName": {field: title for field, (title, _) in panel.columns.items()}}}]


def _panel(table, panel, number, place):
    expressions = [one if panel.foreign else table.scoped(one, _scope) for one, _ in panel.targets]
    asked = []
    for one, _ in panel.targets:
        asked += [] if panel.foreign else [name for name in table.names(one) if name not in asked]
    about = panel.about + (f" Made from {', '.join(asked)}." if asked else "")
    made = {"id": number, "type": panel.kind, "title": panel.title, "description": about, "datasource": SOURCE,
            "gridPos": place, "fieldConfig": _field(panel), "options": _options(panel),
            "targets": [_target(panel, index, expression, legend) for index, (expression, (_, legend))
                        in enumerate(zip(expressions, panel.targets))]}
    if panel.kind == "table":
        made["transformations"] = _table_transformations(panel)
    return made


def _placed(panels, top):
    """(panel, place), left to right and down, and the line below the last."""
    x, y, high, found = 0, top, 0, []
    for panel in panels:
        if x + panel.wide > WIDTH:
            x, y, high = 0, y + high, 0
        found.append((panel, {"x": x, "y": y, "w": panel.wide, "h": panel.high}))
        x, high = x + panel.wide, max(high, panel.high)
    return found, y + high


def _panels(table, rows):
    made, y, number = [], 0, 0
    for row in rows:
        number += 1
        head = {"id": number, "type": "row", "title": row.title, "collapsed": row.folded, "panels": [],
                "gridPos": {"x": 0, "y": y, "w": WIDTH, "h": 1}}
        placed, below = _placed(row.panels, y + 1)
        inside = []
        for panel, place in placed:
            number += 1
            try:
                inside.append(_panel(table, panel, number, place))
            except Wrong as error:
                raise Wrong(f"panel {panel.title!r}: {error}") from error
        # Grafana keeps the panels of a folded row inside of it, and takes no room for them.
        head["panels"] = inside if row.folded else []
        made += [head] if row.folded else [head, *inside]
        y = y + 1 if row.folded else below
    return made


def dashboard(table, board):
    """The board as the JSON that Grafana provisions."""
    links = [{"title": title.partition(" / ")[2], "type": "link", "url": f"/d/{uid}", "icon": "dashboard",
              "tooltip": title, "asDropdown": False, "includeVars": True, "keepTime": True, "targetBlank": False,
              "tags": []} for uid, title in BOARDS if uid != board.uid]
    return {"id": None, "uid": board.uid, "title": dict(BOARDS)[board.uid], "description": board.about,
            "tags": ["baton"], "schemaVersion": SCHEMA_VERSION, "version": 1, "editable": False, "graphTooltip": 1,
            "refresh": "30s", "time": {"from": "now-1h", "to": "now"}, "timezone": "browser",
            "annotations": {"list": []}, "links": links, "templating": {"list": _variables(board.variables)},
            "panels": _panels(table, board.rows)}
