"""The result of `baton bench --out`: one JSON object, described in tools/bench/report/result_json.h."""

import json
from dataclasses import dataclass

from baton_analysis.errors import InputError

SCHEMA = "baton.bench/1"
METRICS = {"ttft": "ttft_ms", "tpot": "tpot_ms", "itl": "itl_ms", "e2e": "e2el_ms", "max-gap": "max_gap_ms"}


@dataclass(frozen=True)
class Slo:
    text: str
    percentile: float
    limits: dict[str, float]  # milliseconds by "ttft", "tpot", "itl", "e2e", "max-gap"


@dataclass(frozen=True)
class Load:
    """What one rate or concurrency came to."""

    value: float
    verdict: str  # "keeps", "breaks", or "unjudged": the load itself was not as planned
    reason: str | None
    figures: dict


class Result:
    """Names that plots need; `json` is the whole of it."""

    def __init__(self, content: dict):
        self.json = content
        self.runs: list[dict] = content["runs"]
        slo = content["slo"]
        self.slo = Slo(slo["text"], slo["percentile"], slo["limits"]) if slo else None
        search = content["find_max"]
        self.search: dict | None = search
        self.partial_reason: str | None = content.get("partial_reason")

    @property
    def variable(self) -> str:
        """"rate" or "concurrency": what a search raised."""
        return self.search["variable"] if self.search else "rate"

    @property
    def best(self) -> float | None:
        """The highest load that kept the SLO."""
        return self.search["best"] if self.search else None

    @property
    def answer(self) -> str:
        """What a search found, in the words that the bench printed."""
        return self.search["answer"]

    @property
    def loads(self) -> list[Load]:
        """Points of --find-max by ascending value; of a value that was tried twice, the last that was judged."""
        found = {}
        for point in self.json["points"]:
            if point["figures"]["completed"] > 0 and not point["partial"]:
                load = Load(point["value"], _verdict(point), point["reason"], point["figures"])
                if load.verdict != "unjudged" or load.value not in found:
                    found[load.value] = load
        return [found[value] for value in sorted(found)]

    @property
    def model(self) -> str:
        return self.json.get("model_id") or "unnamed model"


def _verdict(point: dict) -> str:
    if point["accepted"]:
        return "keeps"
    # Everything else speaks against the load, failed requests without a metric over its limit, too.
    unplanned = point["client_limited"] or point.get("void") or point["partial"]
    return "unjudged" if unplanned else "breaks"


def read_result(path: str) -> Result:
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    except ValueError as error:
        raise InputError(f"{path} is not JSON: {error}") from error
    schema = content.get("schema") if isinstance(content, dict) else None
    if schema != SCHEMA:
        raise InputError(
            f"{path} has schema {schema!r}, expected {SCHEMA!r}; "
            "give the file that `baton bench --out` wrote"
        )
    missing = [name for name in ("runs", "slo", "find_max", "points") if name not in content]
    if missing:
        raise InputError(f"{path} lacks {', '.join(missing)}; it is not a whole result of {SCHEMA}")
    return Result(content)


def reading_interval(run: dict) -> float:
    """Seconds from one reading of /metrics to the next: peaks in between are not seen."""
    return run["server_metrics"]["interval_s"]


def server_series(run: dict | None) -> dict[str, list[tuple[float, float]]]:
    """KV use, 0 to 1, of each worker over seconds since the start of the run."""
    metrics = run.get("server_metrics") if run else None
    series = {}
    for target in metrics["targets"] if metrics else ():
        samples = target["series"].get("kv_usage")
        if samples:
            series[f"{target['role']} {target['address']}".strip()] = [(at, value) for at, value in samples]
    return series
