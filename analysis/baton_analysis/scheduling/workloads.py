"""Parts of traces and of recorded answers: each seed has one of its own, and those of tuning are nobody else's."""

import csv
import json
import math
import os
import random

from baton_analysis.errors import InputError

HEADER = ["TIMESTAMP", "ContextTokens", "GeneratedTokens"]


def cut_trace(path: str, folder: str, number: int, rows_each: int) -> list[str]:
    """The first `number` windows of so many rows of an Azure trace, one after the other, as files of the same form."""
    try:
        with open(path, newline="", encoding="utf-8") as file:
            head, *rows = csv.reader(file)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}; --azure names the folder with conv.csv and code.csv of the "
                         "Azure LLM inference traces of 2023") from error  # yapf: disable
    if head != HEADER or len(rows) < number * rows_each:
        raise InputError(f"{path} has {len(rows)} rows and the header {head}; expected {HEADER} and "
                         f"{number * rows_each} rows at least")
    os.makedirs(folder, exist_ok=True)
    paths = []
    for place in range(number):
        paths.append(os.path.join(folder, f"window-{place + 1}.csv"))
        with open(paths[-1], "w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(
                [HEADER, *rows[place * rows_each:(place + 1) * rows_each]])
    return paths


def trace_rate(path: str) -> float:
    """Requests per second of a window."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))[1:]
    span = _seconds(rows[-1][0]) - _seconds(rows[0][0])
    return (len(rows) - 1) / span


def _seconds(stamp: str) -> float:
    day, clock = stamp.split(" ")
    hours, minutes, seconds = clock.split(":")
    return 86400 * int(day[-2:]) + 3600 * int(hours) + 60 * int(minutes) + float(seconds)


def write_mix(folder: str, seed: int, requests: int) -> str:
    """A trace of one request per second on average: prompts of 64 to 512 tokens; four answers in five around 150 tokens,
    the fifth around 1600."""
    dice = random.Random(f"mix/{seed}")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"mix-{seed}.csv")
    at = 0.0
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEADER)
        for _ in range(requests):
            at += dice.expovariate(1)
            median, spread = (150, 0.5) if dice.random() < 0.8 else (1600, 0.35)
            answer = max(1, round(dice.lognormvariate(math.log(median), spread)))
            hours, rest = divmod(at, 3600)
            stamp = f"2023-11-16 {int(hours):02}:{int(rest // 60):02}:{rest % 60:09.6f}"
            writer.writerow([stamp, dice.randint(64, 512), min(answer, 4096)])
    return path


def cut_answers(dataset: str, folder: str, number: int) -> list[str]:
    """`number` EOS logs of a data set of `scripts/eos dataset`: answers to prompts of its test split and its held-out
    families, which no predictor was trained on, dealt out at random. Those that were cut off are left out. Beside each
    log stands how its answers were drawn, as beside that of a router."""
    asked = _chosen(dataset)
    paths = [os.path.join(folder, f"answers-{place + 1}.jsonl") for place in range(number)]
    order = sorted(asked)  # ids
    random.Random("answers").shuffle(order)
    place_of = {request: place % number for place, request in enumerate(order)}
    if len(order) < number:
        raise InputError(f"{dataset} has {len(order)} answers to test prompts; expected at least {number}; make it with scripts/eos dataset")
    os.makedirs(folder, exist_ok=True)
    rows = {request: [] for request in order}
    with open(os.path.join(dataset, "sampled", "rows.jsonl"), encoding="utf-8") as file:
        for line in file:
            request = line[len('{"request_id":"'):line.index('"', len('{"request_id":"'))]
            if request in rows:
                rows[request].append(line)
    files = [open(path, "w", encoding="utf-8") for path in paths]
    for request in order:
        files[place_of[request]].writelines(rows[request])
    for file in files:
        file.close()
    for place, path in enumerate(paths):
        with open(path + ".requests.jsonl", "w", encoding="utf-8") as file:
            file.writelines(_summary(asked[request]) for request in order if place_of[request] == place)
    return paths


def _summary(request: dict) -> str:
    sampling = {"temperature": request["temperature"], "top_p": request["top_p"]}
    return json.dumps({"request_id": request["request_id"], "sampling": sampling}) + "\n"


def _chosen(dataset: str) -> dict[str, dict]:
    try:
        with open(os.path.join(dataset, "split.jsonl"), encoding="utf-8") as file:
            split = [json.loads(line)["split"] for line in file]
        with open(os.path.join(dataset, "sampled", "requests.jsonl"), encoding="utf-8") as file:
            requests = [json.loads(line) for line in file]
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{dataset} is no data set of scripts/eos dataset: {error!r}") from error
    return {
        request["request_id"]: request for request in requests
        if request["finish_reason"] == "stop_eos" and split[request["prompt_index"]] in ("test", "held_out")
    }
