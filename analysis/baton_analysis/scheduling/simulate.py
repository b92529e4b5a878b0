"""Calls of `baton sim`. What one said is kept, by everything that it depends on, so that a study goes on after a stop."""

import dataclasses
import hashlib
import json
import os
import subprocess

from baton_analysis.errors import InputError
from baton_analysis.scheduling import workloads
from baton_analysis.scheduling.settings import Setting

AT_ONCE = 1e-3  # factor on a trace's times that puts its requests into the queue together
LIMIT_S = 3600


@dataclasses.dataclass(frozen=True)
class Load:
    """The requests of one seed: a trace, logs of answers, or lengths to be drawn."""
    setting: Setting
    seed: int
    path: str = ""

    def flags(self, rate: float) -> list[str]:
        """`rate` in requests per second; 0: all at once."""
        setting = self.setting
        at = ["--seed", str(self.seed), "--max-tokens", str(setting.max_tokens)]
        if self.path and not setting.answers:
            scale = workloads.trace_rate(self.path) / rate if rate else AT_ONCE
            return [*at, "--trace", self.path, "--time-scale", f"{scale:.6g}"]
        at += ["--rate", f"{rate or 1e5:.6g}", "--requests", str(setting.requests)]
        if setting.answers:
            return [*at, "--answers", self.path]
        return [*at, "--input-tokens", setting.lengths[0], "--output-tokens", setting.lengths[1]]


class Simulator:

    def __init__(self, baton: str, work: str, predictor_file: str = "", model: str = ""):
        self._baton = baton
        self._work = os.path.join(work, "runs")
        self._predictors = {"file": predictor_file}
        self._model = model
        os.makedirs(self._work, exist_ok=True)
        with open(baton, "rb") as file:
            self._made_by = hashlib.sha256(file.read()).hexdigest()

    def command(self, load: Load, rate: float, policies: list[str], predictor: str, more: list[str], *,
                cost: str, pool: int) -> list[str]:  # yapf: disable
        setting = load.setting
        command = [
            self._baton, "sim", "--json", "--step-cost", cost, "--policy", ",".join(policies), "--kv-cache-tokens",
            str(pool), "--max-num-seqs", str(setting.max_num_seqs), "--max-model-len", str(setting.max_model_len),
            "--max-num-queued-reqs", "100000", "--slo", setting.slo, *setting.cluster,
            *load.flags(rate), *more
        ]
        if setting.device is not None:
            command.append("--async-scheduling")
        if rate:  # the first tenth finds an empty service
            command += ["--warmup", f"{0.1 * setting.requests / rate:.0f}s"]
        if predictor != "off":
            command += ["--predictor", self._predictors.get(predictor, predictor)]
        if predictor == "file":
            command += ["--tokenizer", self._model]
        return command

    def run(self, *arguments, **options) -> dict[str, dict]:
        """What came of each policy, by its name."""
        command = self.command(*arguments, **options)
        key = hashlib.sha256("\0".join([self._made_by, *map(_content, command[1:])]).encode()).hexdigest()
        path = os.path.join(self._work, key[:32] + ".json")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                return json.load(file)
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
        if done.returncode != 0:
            raise InputError(f"{' '.join(command)} failed: {done.stderr.strip()}")
        found = {each["policy"]: each["runs"][0] for each in json.loads(done.stdout)["policies"]}
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(found, file)
        os.replace(path + ".new", path)
        return found


def _content(word: str) -> str:
    """Files count by what is in them."""
    if not os.path.isfile(word):
        return word
    with open(word, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def capacity(run: dict) -> float:
    """Requests per second, of a run with all requests in the queue at once: until nine in ten were answered. What follows
    is left out, since a worker that runs empty is not at its limit."""
    return 0.9 * run["e2e_ms"]["count"] / (run["e2e_ms"]["p90"] / 1e3)
