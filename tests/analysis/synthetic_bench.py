"""Results and rows of a bench of a server that never was: one queue, a pace that falls with load."""

import heapq
import json
import random

PERCENTILES = (50, 90, 95, 99, 99.9)


def summary(samples):
    ordered = sorted(samples)
    if not ordered:
        return None

    def percentile(percent):
        at = (len(ordered) - 1) * percent / 100
        low = int(at)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (ordered[high] - ordered[low]) * (at - low)

    mean = sum(ordered) / len(ordered)
    found = {"count": len(ordered), "mean": mean, "std": 0, "min": ordered[0], "max": ordered[-1]}
    found |= {f"p{p:g}": percentile(p) for p in PERCENTILES}
    found["ci95"] = {"mean": [0.95 * mean, 1.05 * mean]}
    found["ci95"] |= {f"p{p:g}": [0.9 * percentile(p), 1.12 * percentile(p)] for p in PERCENTILES}
    return found


def simulate(rate, count, seed, places=24, run=0, timings=True, eos_after=None):
    """Rows of one run: Poisson arrivals, `places` requests at once, prefill one after the other."""
    rng = random.Random(seed)
    now, free_prefill = 0.0, 0.0
    ends, rows = [], []
    for index in range(count):
        now += rng.expovariate(rate)
        while ends and ends[0] <= now:
            heapq.heappop(ends)
        place = now if len(ends) < places else heapq.heappop(ends)
        prompt, tokens = rng.randint(64, 512), eos_after(rng) if eos_after else 64
        start = max(place, free_prefill)
        prefill = 0.012 + prompt * 9e-5
        free_prefill = start + prefill
        transfer = 0.002 + prompt * 4e-6
        sent = now + rng.expovariate(5000)
        at = max(start, sent) + prefill + 0.004
        chunks = [[round(at, 6), 1]]
        at += transfer if tokens > 1 else 0
        pace = 0.012 + 0.0011 * len(ends)
        for _ in range(tokens - 1):
            at += pace * rng.lognormvariate(0, 0.25) + (0.09 if rng.random() < 0.004 else 0)
            chunks.append([round(at, 6), 1])
        heapq.heappush(ends, at)
        rows.append({
            "run": run, "index": index, "scheduled": now, "sent": sent, "ended": at, "chunks": chunks,
            "error": None, "cancelled": False, "request_id": f"r{index}",
            "planned_prompt_tokens": prompt, "max_tokens": 64, "prompt_tokens": prompt,
            "cached_tokens": 0, "output_tokens": tokens, "natural_end_step": None,
            "finish_reason": "length", "attempts": 1,
            "timings_ms": {"queue": 1000 * max(0.0, start - sent), "prefill": 1000 * prefill,
                           "kv_transfer": 1000 * transfer,
                           "ttft": 1000 * (chunks[0][0] - sent)} if timings else None,
            "lag_ms": 1000 * (sent - now)})
    return rows


def fail(row):
    row["chunks"] = row["chunks"][:5]
    row["ended"] = row["chunks"][-1][0]
    row["error"] = {"code": "UNAVAILABLE", "message": "the stream broke"}


def figures(rows, limits):
    done = [row for row in rows if row["error"] is None]
    ttft = [1000 * (row["chunks"][0][0] - row["scheduled"]) for row in done]
    tpot = [1000 * (row["chunks"][-1][0] - row["chunks"][0][0]) / (len(row["chunks"]) - 1)
            for row in done if len(row["chunks"]) > 1]
    itl = [1000 * (b[0] - a[0]) for row in done for a, b in zip(row["chunks"], row["chunks"][1:])]
    e2e = [1000 * (row["chunks"][-1][0] - row["scheduled"]) for row in done]
    seconds = max(row["scheduled"] for row in rows)
    kept = sum(t <= limits.get("ttft", 1e9) and p <= limits.get("tpot", 1e9) for t, p in zip(ttft, tpot))
    finished = sum(row["ended"] <= seconds for row in done)
    arrived = sum(chunk[0] <= seconds for row in rows for chunk in row["chunks"])
    return {
        "requests": len(rows), "completed": len(done), "failed": len(rows) - len(done),
        "ttft_ms": summary(ttft), "tpot_ms": summary(tpot), "itl_ms": summary(itl),
        "e2el_ms": summary(e2e), "tokens_per_s_per_user": summary([1000 / t for t in tpot]),
        "output_throughput": arrived / seconds, "request_throughput": finished / seconds,
        "request_goodput": kept / seconds}


def described(rows, limits, label, rate, eos="mask", metrics=True, index=0):
    last = max(row["scheduled"] for row in rows)
    end = max(row["ended"] for row in rows)
    def usage(ends):
        return [[at / 2, min(1.0, 0.02 * sum(row["sent"] <= at / 2 < ends(row) for row in rows))]
                for at in range(-1, int(2 * end))]

    targets = [
        {"address": "127.0.0.1:9202", "role": "decode", "series": {"kv_usage": usage(lambda r: r["ended"])}},
        {"address": "127.0.0.1:9201", "role": "prefill",
         "series": {"kv_usage": usage(lambda r: r["chunks"][0][0])}},
        {"address": "127.0.0.1:9200", "role": "router", "series": {"queued": [[0.0, 1.0]]}}]
    return {
        "seed": 1, "label": label, "eos": eos, "rate": rate, "concurrency": None, "partial": False,
        "unix_started": started(index), "duration_s": end, "window": {"from": 0.1 * last, "to": last, "whole_run": False},
        "figures": figures(rows, limits),
        "server_metrics": {"interval_s": 0.5, "targets": targets} if metrics else None}


def started(index):
    return 1.7e9 + 100 * index


def result(runs=(), points=(), slo=None, search=None):
    return {"schema": "baton.bench/1", "model_id": "demo", "slo": slo, "partial_reason": None,
            "runs": list(runs), "find_max": search, "points": list(points)}


SLO = {"text": "ttft <= 200 ms and tpot <= 40 ms at P99", "percentile": 99, "reader": None,
       "limits": {"ttft": 200.0, "tpot": 40.0}}


def one_run(count=240, rate=11.0, **options):
    rows = simulate(rate, count, seed=1, **options)
    return result([described(rows, SLO["limits"], "run 1 of 1", rate)], slo=SLO), [rows]


def kept(found, limits):
    return found["ttft_ms"]["p99"] <= limits["ttft"] and found["tpot_ms"]["p99"] <= limits["tpot"]


def a_search(count=300, loads=(1, 2, 4, 8, 16, 11, 9.5, 8.7, 8.35, 8.17)):
    points, runs = [], []
    for number, rate in enumerate(loads):
        rows = simulate(rate, count, seed=1, run=number)
        runs.append(rows)
        found = figures(rows, SLO["limits"])
        accepted = kept(found, SLO["limits"])
        points.append({"value": float(rate), "accepted": accepted, "partial": False,
                       "reason": None if accepted else "over its limit", "undecided": False,
                       "failed_metric": None if accepted else "ttft", "saturated": False,
                       "client_limited": False,
                       "figures": found})
    best = max((point["value"] for point in points if point["accepted"]), default=None)
    answer = f"highest requests/s that keeps the SLO: {best}" if best else "no requests/s was found"
    search = {"variable": "rate", "best": best, "first_failing": None, "failed_metric": None,
              "answer": answer}
    return result(points=points, slo=SLO, search=search), runs


def labels_of(content):
    if content["find_max"]:
        return [f"{point['value']:.6g} requests/s" for point in content["points"]]
    return [run["label"] for run in content["runs"]]


def write(folder, content, runs, closed=True):
    """result.json and rows.jsonl in `folder`; returns their paths."""
    result_path, rows_path = f"{folder}/result.json", f"{folder}/rows.jsonl"
    with open(result_path, "w", encoding="utf-8") as file:
        json.dump(content, file)
    with open(rows_path, "w", encoding="utf-8") as file:
        file.write(json.dumps({"schema": "baton.bench.rows/1"}) + "\n")
        for index, (rows, label) in enumerate(zip(runs, labels_of(content))):
            for row in rows:
                file.write(json.dumps(row | {"run": index}) + "\n")
            end = {"started_unix": started(index), "duration_s": max(row["ended"] for row in rows),
                   "interrupted": False, "label": label}
            file.write(json.dumps({"run": index, "end": end}) + "\n")
        if closed:
            file.write(json.dumps({"complete": True, "partial": False, "reason": None}) + "\n")
    return result_path, rows_path
