"""Small EOS logs whose every figure is known."""

import json
import math
import os
import tempfile
import unittest

EOS = 2


def rows(request_id, probs, reason="stop_eos", tokens=None, policy="honor", natural_end_step=None,
         **extra):
    """One request with this EOS probability at each step. The last token of stop_eos is EOS."""
    tokens = list(tokens or range(10, 10 + len(probs)))
    if reason == "stop_eos":
        tokens[-1] = EOS
    made = []
    for step, (prob, token) in enumerate(zip(probs, tokens), start=1):
        last = step == len(probs)
        known = natural_end_step is not None and step >= natural_end_step
        made.append({
            "request_id": request_id, "timestamp": 1000.0 + step, "step": step,
            "current_token_id": token, "eos_token_id": EOS, "eos_logprob": math.log(prob),
            "eos_prob": prob, "is_finished": last, "finish_reason": reason if last else None,
            "prompt_length": 3, "output_length": step, "total_length": 3 + step,
            "eos_prob_sampling": prob, "eos_rank": 5, "entropy": 1.5, "top1_prob": 0.5,
            "eos_policy": policy, "natural_end_step": natural_end_step if known else None,
            "attempt": 1, **extra
        })
    return made


def vllm_rows(request_id, probs, reason, tokens=None):
    """As the vLLM experiment writes them: only its keys, null where EOS was not returned."""
    made = rows(request_id, [p or 0.5 for p in probs], "stop_eos" if reason == "eos" else reason,
                tokens)
    for row, prob in zip(made, probs):
        for key in ("eos_prob_sampling", "eos_rank", "entropy", "top1_prob", "eos_policy",
                    "natural_end_step", "attempt"):
            del row[key]
        if prob is None:
            row["eos_logprob"] = row["eos_prob"] = None
        row["finish_reason"] = row["finish_reason"] and {"eos": "stop"}.get(reason, reason)
    return made


def interleaved(*requests):
    """A row of each in turn, as a router writes requests that run together."""
    return [
        request[at] for at in range(max(map(len, requests))) for request in requests
        if at < len(request)
    ]


def without(keys, some_rows):
    return [{key: value for key, value in row.items() if key not in keys} for row in some_rows]


class LogCase(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def written(self, *requests, name="eos.jsonl", tail=""):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for request in requests for row in request)
            file.write(tail)
        return path

    def write_summaries(self, log, *summaries):
        with open(log + ".requests.jsonl", "w", encoding="utf-8") as file:
            file.writelines(json.dumps(summary) + "\n" for summary in summaries)
