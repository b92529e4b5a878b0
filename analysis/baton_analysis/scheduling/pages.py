"""The tables of docs/scheduling.md."""

import json
import os

from baton_analysis import markdown
from baton_analysis.scheduling import figures

KNOWN = ("off", "learnt", "file")  # what a service can have; the oracle it cannot
# Those that the rule compares with.
BASES = ("fcfs", "past-future")


def compact(found: dict) -> str:
    """JSON with a line per column, so that a change shows where it is."""
    text = json.dumps(found, indent=1)
    lines, depth = [], 0
    for line in text.splitlines():
        stripped = line.strip()
        if depth or stripped.endswith('"figures": {') or (stripped.endswith("[") and "columns" not in stripped
                                                          and "settings" not in stripped and "loads" not in stripped
                                                          and "tuned" not in stripped):  # yapf: disable
            lines[-1:] = [lines[-1] + " " + stripped] if depth else [*lines[-1:], line]
            depth += stripped.endswith(("{", "[")) - stripped.startswith(("}", "]"))
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"


def label(column: dict) -> str:
    given = "" if column["given"] is None else f" ({column['given']:g})"
    predictor = "" if column["predictor"] == "off" else f", {column['predictor']}"
    note = f", {column['note']}" if column["note"] else ""
    return column["policy"] + given + predictor + note


def pressed(setting: dict) -> bool:
    """Whether fcfs found the pool full at times, at the load that the rule looks at."""
    return kv_use(setting, at_rule(setting)) >= 0.9


def at_rule(setting: dict, load: float = 0.85) -> dict:
    return next((each for each in setting["loads"] if each["load"] == load), setting["loads"][-1])


def fcfs(load: dict) -> dict:
    return next(column["figures"] for column in load["columns"] if column["policy"] == "fcfs")


def kv_use(setting: dict, load: dict) -> float:
    return figures.interval(fcfs(load)["kv_use_p95"])[0]


def write(found: dict, page: str, pictures: str):
    folder = os.path.relpath(pictures, os.path.dirname(os.path.abspath(page)))
    parts = {"settings": settings_table(found), "tuned": tuned_table(found), "rule": rule_table(found),
             "waits": waits_table(found)}
    for setting in found["settings"]:
        parts[setting["name"]] = section(setting, folder)
    markdown.write_page(page, parts)


def settings_table(found: dict) -> str:
    rows = []
    for setting in found["settings"]:
        use = [f"{kv_use(setting, load):.0%}" for load in setting["loads"]]
        base = fcfs(at_rule(setting))
        rows.append([
            setting["title"], f"{len(setting['seeds'])} × {setting['requests']}",
            f"{setting['pool_tokens']:,}", f"{setting['full_pool_tokens']:,}", _plain(setting["capacity"]),
            " / ".join(use), _plain(base["ttft_ms.mean"]), _plain(base["preemptions"]),
            "yes" if pressed(setting) else "no"
        ])  # yapf: disable
    loads = " / ".join(f"{load['load']:.0%}" for load in found["settings"][0]["loads"])
    return markdown.table(["setting", "seeds × requests", "pool, tokens", "the device's", "capacity, requests/s",
                           f"P95 of KV use, fcfs, at {loads}", "fcfs: mean TTFT at 85 %, ms", "fcfs: preemptions",
                           "presses"], rows)  # yapf: disable


def tuned_table(found: dict) -> str:
    rows = []
    for setting in found["settings"]:
        for tuned in setting["tuned"]:
            best = min(tuned["scores"].values())
            tried = ", ".join(f"{value}: {score / best:.2f}" for value, score in tuned["scores"].items())
            rows.append([setting["name"], label({**tuned, "given": None}), f"{tuned['chosen']:g}", tried])
    return markdown.table(["setting", "policy", "chosen", "score of each, over the best"], rows)


def section(setting: dict, folder: str) -> str:
    name = setting["name"]
    return "\n\n".join([
        f"![{setting['title']}: latencies against fcfs]({folder}/{name}.svg)",
        "End to end against `fcfs`: the difference in per cent, seed by seed, with its 95 % interval:",
        difference_table(setting),
        f"At {at_rule(setting)['load']:.0%} of capacity, means over seeds; times in ms:",
        absolute_table(setting)
    ])  # yapf: disable


def difference_table(setting: dict) -> str:
    loads = setting["loads"]
    rows = []
    for place, column in enumerate(loads[0]["columns"]):
        if column["policy"] == "fcfs":
            continue
        cells = [label(column)]
        for figure in ("e2e_ms.mean", "e2e_ms.p99"):
            for load in loads:
                cells.append(percent(*figures.relative(load["columns"][place]["figures"][figure],
                                                       fcfs(load)[figure])))
        rows.append(cells)
    head = [f"{what}, {load['load']:.0%}" for what in ("mean end to end", "P99") for load in loads]
    return markdown.table(["policy", *head], rows)


def absolute_table(setting: dict) -> str:
    rows = []
    for column in at_rule(setting)["columns"]:
        value = column["figures"]
        rows.append([
            label(column), _spread(value["ttft_ms.mean"]), _plain(value["ttft_ms.p99"]),
            f"{_number(max(value['ttft_ms.max']))}", _plain(value["tpot_ms.mean"]), _spread(value["e2e_ms.mean"]),
            _plain(value["e2e_ms.p50"]), _spread(value["e2e_ms.p99"]),
            f"{100 * figures.interval(value['goodput_share'])[0]:.1f}", _plain(value["preemptions"]),
            f"{100 * figures.interval(value['kv_use_p95'])[0]:.0f}",
            f"{100 * figures.interval(value['wasted_share'])[0]:.1f}"
        ])  # yapf: disable
    return markdown.table(["policy", "TTFT mean", "P99", "longest", "TPOT mean", "end to end mean", "P50", "P99",
                           f"within {setting['slo']}, %", "preemptions", "KV P95, %", "wasted, %"], rows)  # yapf: disable


def waits_table(found: dict) -> str:
    """The longest TTFT of all seeds, at the load of the rule and at the highest."""
    settings = found["settings"]
    names = []
    for setting in settings:
        names += [name for name in map(_plain_label, at_rule(setting)["columns"]) if name not in names]
    rows = [[name, *(_longest(setting, name) for setting in settings)] for name in names]
    return markdown.table(["policy", *(setting["name"] for setting in settings)], rows)


def _plain_label(column: dict) -> str:
    return label({**column, "given": None})


def _longest(setting: dict, name: str) -> str:
    waits = []
    for load in (at_rule(setting), setting["loads"][-1]):
        waits += [max(column["figures"]["ttft_ms.max"]) / 1e3 for column in load["columns"]
                  if _plain_label(column) == name]  # yapf: disable
    return " / ".join(map(_number, waits)) or "–"


def rule_table(found: dict) -> str:
    rows, kept = [], {}
    pressing = [setting for setting in found["settings"] if pressed(setting)]
    for setting in pressing:
        for name, candidate, judged in verdicts(setting):
            kept[candidate] = kept.get(candidate, 0) + judged["holds"]
            cells = []
            for base in judged["against"].values():
                cells.append(f"{_mark(base['mean_below'])} {percent(*base['mean'])}; "
                             f"{_mark(base['p99_not_above'])} {percent(*base['p99'])}")
            cells += ["–"] * (2 - len(cells))
            rows.append([setting["name"], name, *cells, "holds" if judged["holds"] else "fails"])
    chosen = [candidate for candidate, times in kept.items() if times == len(pressing)]
    said = (f"It holds in every setting whose pool presses for: {', '.join(chosen)}." if chosen else
            "No policy keeps it in every setting whose pool presses, so the default stays `fcfs`.")
    return said + "\n\n" + markdown.table(
        ["setting", "policy", "against fcfs: mean; P99", "against past-future: mean; P99", "the rule"], rows)


def verdicts(setting: dict) -> list[tuple[str, str, dict]]:
    """Of the policies that may become the default, which are served ones with what a service can know: how each is named
    here, by what name it is known in every setting, and what is judged of it."""
    columns = [column for column in at_rule(setting)["columns"] if column["served"]]
    judged = []
    for column in columns:
        if column["policy"] in BASES or column["predictor"] not in KNOWN:
            continue
        others = {}
        for base in columns:
            same = base["predictor"] in (column["predictor"], "off") or column["predictor"] == "off"
            if base["policy"] in BASES and base["predictor"] in KNOWN and same and base["policy"] not in others:
                others[base["policy"]] = base["figures"]
        judged.append((label(column), _plain_label(column), figures.verdict(column["figures"], others)))
    return judged


def percent(mean: float, half: float) -> str:
    """Per cent, and beyond the fourfold a factor."""
    if mean >= 3:
        return factor(mean)
    return f"{100 * mean:+.1f} ± {100 * half:.1f}".replace("-", "−")


def factor(mean: float) -> str:
    return f"× {1 + mean:.1f}" if mean < 9 else f"× {1 + mean:,.0f}"


def _mark(holds: bool) -> str:
    return "✓" if holds else "✗"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _plain(values: list[float]) -> str:
    return _number(figures.interval(values)[0])


def _spread(values: list[float]) -> str:
    mean, half = figures.interval(values)
    return f"{_number(mean)} ± {_number(half)}"
