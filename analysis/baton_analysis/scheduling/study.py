"""Runs the study: sizes pools, measures capacities, tunes what has a number, then every load, seed and column."""

import dataclasses
import json
import os
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor

from baton_analysis.scheduling import costs, figures, workloads
from baton_analysis.scheduling.settings import (COLUMNS, FULL_KV, LOADS, RULE_LOAD, TEST_SEEDS,
                                                TRAINING_SEEDS, Column, Setting)
from baton_analysis.scheduling.simulate import Load, Simulator, capacity

SCHEMA = "baton.scheduling_study/1"
SMALLER = 0.75  # of the pool, until it is full at times


@dataclasses.dataclass(frozen=True)
class Options:
    work: str
    azure: str = ""
    answers: str = ""
    cpu_cost: str = ""
    loads: tuple[float, ...] = LOADS
    seeds: tuple[int, ...] = TEST_SEEDS
    training_seeds: tuple[int, ...] = TRAINING_SEEDS
    columns: tuple[Column, ...] = COLUMNS
    jobs: int = 1


def run(settings: list[Setting], simulator: Simulator, options: Options) -> dict:
    found = []
    for setting in settings:
        missing = _missing(setting, options)
        if missing:
            print(f"{setting.name} is left out: {missing}", file=sys.stderr)
            continue
        found.append(_Study(setting, simulator, options).run())
    return {"schema": SCHEMA, "rule_load": RULE_LOAD, "settings": found}


def _missing(setting: Setting, options: Options) -> str:
    if setting.trace and not options.azure:
        return "it needs --azure, the folder of the Azure traces"
    if setting.answers and not options.answers:
        return "it needs --answers, a data set of scripts/eos dataset"
    if setting.device is None and not options.cpu_cost:
        return "it needs --cpu-cost, step costs fitted on this machine"
    return ""


class _Study:
    """Of one setting."""

    def __init__(self, setting: Setting, simulator: Simulator, options: Options):
        self._setting, self._simulator, self._options = setting, simulator, options
        self._capacity: dict[int, float] = {}
        self._given: dict[Column, float] = {}
        self._folder = os.path.join(options.work, setting.name)
        os.makedirs(self._folder, exist_ok=True)
        self._cost = self._write_cost()
        self._loads = self._make_loads()
        self._pool = setting.full_pool

    def run(self) -> dict:
        setting = self._setting
        kv = self._size_pool()
        _say(f"{setting.name}: a pool of {self._pool} tokens of {setting.full_pool}, P95 of its use {kv:.0%}")
        tuned = self._tune()
        loads = []
        for load in self._options.loads:
            loads.append({"load": load, "columns": self._columns(load)})
            _say(f"{setting.name}: {load:.0%} of capacity is done")
        with open(self._cost, encoding="utf-8") as file:
            cost = json.load(file)
        return {
            "name": setting.name, "title": setting.title, "requests": setting.requests,
            "cluster": " ".join(setting.cluster), "max_tokens": setting.max_tokens, "max_num_seqs": setting.max_num_seqs, "slo": setting.slo,
            "cost": cost, "full_pool_tokens": setting.full_pool, "pool_tokens": self._pool,
            "kv_use_p95": round(kv, 3), "seeds": list(self._options.seeds),
            "capacity": [float(f"{self._capacity[seed]:.4g}") for seed in self._options.seeds],
            "tuned": tuned, "loads": loads
        }  # yapf: disable

    def _write_cost(self) -> str:
        if self._setting.device is None:
            return self._options.cpu_cost
        path = os.path.join(self._folder, "cost.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(costs.reckon(costs.LLAMA_8B, self._setting.device), file, indent=1)
        return path

    def _make_loads(self) -> dict[int, Load]:
        setting, options = self._setting, self._options
        seeds = (*options.seeds, *options.training_seeds)
        if setting.trace:
            paths = workloads.cut_trace(os.path.join(options.azure, setting.trace), self._folder,
                                        len(seeds), setting.requests)
        elif setting.answers:
            paths = workloads.cut_answers(options.answers, self._folder, len(seeds))
        elif setting.mixed:
            paths = [workloads.write_mix(self._folder, seed, setting.requests) for seed in seeds]
        else:
            paths = [""] * len(seeds)
        return {seed: Load(setting, seed, path) for seed, path in zip(seeds, paths)}

    def _simulate(self, seed, rate, policies, predictor="off", more=()):
        return self._simulator.run(self._loads[seed], rate, policies, predictor, list(more),
                                   cost=self._cost, pool=self._pool)

    def _capacity_of(self, seed: int) -> float:
        return capacity(self._simulate(seed, 0, ["fcfs"])["fcfs"])

    def _size_pool(self) -> float:
        """Takes the device's pool or, where that is never full, one that is, and measures capacities with it. Returns P95
        of its use under fcfs at the load of the rule, the mean over all seeds."""
        seeds = list(self._loads)
        kv = 0.0
        for some in (seeds[:1], seeds):  # one tells roughly where to begin
            while True:
                self._capacity = dict(zip(some, self._side_by_side(self._capacity_of, some)))
                kv = statistics.mean(self._side_by_side(self._kv_use_of, some))
                smaller = int(SMALLER * self._pool)
                if self._setting.relaxed or kv >= FULL_KV or smaller < 2 * self._setting.max_tokens:
                    break
                self._pool = smaller
        return kv

    def _kv_use_of(self, seed: int) -> float:
        return self._simulate(seed, RULE_LOAD * self._capacity[seed], ["fcfs"])["fcfs"]["kv_use_p95"]

    def _side_by_side(self, work, items) -> list:
        with ThreadPoolExecutor(max(1, self._options.jobs)) as pool:
            return list(pool.map(work, items))

    def _tune(self) -> list[dict]:
        tuned = []
        for column in self._options.columns:
            if not column.tuned or not self._has(column):
                continue

            def tried(value, column=column):
                runs = [self._run_of(column, value, seed, RULE_LOAD) for seed in self._options.training_seeds]
                return figures.score(figures.gather(runs))

            scores = self._side_by_side(tried, column.tuned)
            self._given[column] = column.tuned[scores.index(min(scores))]
            tuned.append({
                "policy": column.policy, "predictor": column.predictor, "note": column.note,
                "chosen": self._given[column],
                "scores": {f"{value:g}": float(f"{score:.4g}") for value, score in zip(column.tuned, scores)}
            })  # yapf: disable
        return tuned

    def _has(self, column: Column) -> bool:
        """Only recorded answers have signals that a predictor file reads."""
        return column.predictor != "file" or self._setting.answers

    def _columns(self, load: float) -> list[dict]:
        columns = [column for column in self._options.columns if self._has(column)]
        work = [(column, seed) for column in columns for seed in self._options.seeds]
        runs = dict(zip(work, self._side_by_side(
            lambda item: self._run_of(item[0], self._given.get(item[0]), item[1], load), work)))
        return [{
            "policy": column.policy, "predictor": column.predictor, "note": column.note,
            "served": column.served,
            "given": self._given.get(column),
            "figures": figures.gather([runs[column, seed] for seed in self._options.seeds])
        } for column in columns]  # yapf: disable

    def _run_of(self, column: Column, value: float | None, seed: int, load: float) -> dict:
        name, more = column.policy, list(column.more)
        if value is not None and column.flag:
            more += [column.flag, f"{value:g}"]
        elif value is not None:
            name = f"{name}:{value:g}"
        return self._simulate(seed, load * self._capacity[seed], [name], column.predictor, more)[name]


def _say(text: str):
    print(text, file=sys.stderr, flush=True)
