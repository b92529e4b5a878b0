"""A data set whose ends are known: sentences whose last one is announced a few rows ahead.

Every sentence has `SENTENCE` tokens, the last of them a full stop. After a full stop an answer ends
with the chance of its family; EOS is likely at the row after it, and the entropy of the last
sentence is low, so its end can be foretold.
"""

import json
import math
import os

import numpy as np

EOS, STOP = 1, 5
SENTENCE = 6
FAMILIES = {"story": 0.15, "answer": 0.4, "list": 0.3}
HELD_OUT = "list"
FINGERPRINT = "synthetic"
WIDTH = 3


def write(folder, prompts=30, seeds=2, projections=False, ceiling=False, seed=1):
    """Two arms, whole and cut answers, and split.jsonl."""
    rng = np.random.default_rng(seed)
    os.makedirs(folder, exist_ok=True)
    splits = {}
    for arm, temperature, cut in (("sampled", 0.8, None), ("censored", 0.8, 15)):
        answers = []
        for family in FAMILIES:
            for prompt in range(prompts):
                splits[family, prompt] = split_of(family, prompt)
                for number in range(seeds):
                    answers.append(answer(rng, family, prompt, number, temperature, cut))
        write_arm(os.path.join(folder, arm), answers, rng, projections)
        if ceiling and cut is None:
            write_ceiling(os.path.join(folder, "ceiling.jsonl"), answers, splits, rng)
    lines(os.path.join(folder, "split.jsonl"),
          [{"prompt_index": prompt, "family": family, "size": "", "split": split, "prompt": "p"}
           for (family, prompt), split in splits.items()])  # yapf: disable


def split_of(family, prompt):
    if family == HELD_OUT:
        return "held_out"
    return ("train", "train", "train", "validation", "test")[prompt % 5]


def answer(rng, family, prompt, seed, temperature, cut):
    sentences = int(rng.geometric(FAMILIES[family]))
    tokens, entropy, prob = [], [], []
    for number in range(sentences):
        for place in range(SENTENCE):
            last = number == sentences - 1
            tokens.append(STOP if place == SENTENCE - 1 else int(rng.integers(10, 200)))
            entropy.append(float(rng.uniform(0.1, 0.5) if last else rng.uniform(1, 3)))
            after_stop = place == 0 and number > 0
            prob.append(FAMILIES[family] if after_stop else 1e-8)
    tokens.append(EOS)
    entropy.append(1.0)
    prob.append(0.9)
    finish = "stop_eos"
    if cut and len(tokens) > cut:
        tokens, finish = tokens[:cut], "length"
    return {
        "request_id": f"{family}-{prompt:06d}-t{temperature:g}{f'-m{cut}' if cut else ''}-s{seed}",
        "family": family, "prompt_index": prompt, "seed": seed, "temperature": temperature,
        "top_p": 1.0, "max_tokens": cut or 512, "finish_reason": finish, "prompt_length": 9,
        "output_length": len(tokens), "token_ids": tokens, "entropy": entropy, "prob": prob
    }  # yapf: disable


def row_of(made, step):
    at, last = step - 1, step == made["output_length"]
    return {
        "request_id": made["request_id"], "timestamp": 1000.0 + step, "step": step,
        "current_token_id": made["token_ids"][at], "eos_token_id": EOS,
        "eos_logprob": math.log(made["prob"][at]), "eos_prob": made["prob"][at],
        "is_finished": last, "finish_reason": made["finish_reason"] if last else None,
        "prompt_length": 9, "output_length": step, "total_length": 9 + step,
        "eos_prob_sampling": made["prob"][at], "eos_rank": 1 if made["prob"][at] > 0.1 else 90,
        "entropy": made["entropy"][at], "top1_prob": 0.5, "eos_policy": "honor",
        "natural_end_step": None, "attempt": 1
    }  # yapf: disable


def write_arm(folder, answers, rng, projections):
    """Rows of neighbouring answers stand mixed."""
    os.makedirs(folder, exist_ok=True)
    rows = []
    for first, second in zip(answers[::2], answers[1::2]):
        pair = [row_of(made, step) for made in (first, second)
                for step in range(1, made["output_length"] + 1)]  # yapf: disable
        rows += sorted(pair, key=lambda row: row["step"])
    lines(os.path.join(folder, "rows.jsonl"), rows)
    lines(os.path.join(folder, "requests.jsonl"), [{
        key: made[key] for key in made if key not in ("entropy", "prob")
    } for made in answers])
    if projections:
        rng.normal(size=(len(rows),
                         WIDTH)).astype("<f4").tofile(os.path.join(folder, "projections.f32"))
    manifest = {
        "schema": "baton.eos.collected/1",
        "model": {
            "fingerprint": FINGERPRINT
        },
        "projections": {
            "width": WIDTH
        } if projections else None
    }
    with open(os.path.join(folder, "manifest.json"), "w", encoding="utf-8") as file:
        json.dump(manifest, file)


def write_ceiling(path, answers, splits, rng):
    entries = []
    for made in answers:
        if splits[made["family"], made["prompt_index"]] != "test":
            continue
        step = int(rng.integers(1, made["output_length"]))
        remaining = made["output_length"] - step
        # As if the model knew: 7 of 8 continuations end where this answer did.
        entries.append({
            "request_id": made["request_id"],
            "at_step": step,
            "samples": [remaining if n % 8 else remaining + SENTENCE for n in range(16)],
            "censored": [False] * 16
        })
    lines(path, entries)


def write_model(folder):
    """A tokenizer in which STOP is a full stop."""
    os.makedirs(folder, exist_ok=True)
    vocabulary = {"<|bos|>": 0, "<|end|>": EOS, "<|endoftext|>": 2, ".": STOP, "Ċ": 6, ".\"Ċ": 7}
    vocabulary |= {f"w{number}": number for number in range(10, 200)}
    content = {
        "added_tokens": [{
            "id": EOS,
            "content": "<|end|>.",
            "special": True
        }],
        "pre_tokenizer": {
            "type": "ByteLevel"
        },
        "model": {
            "type": "BPE",
            "vocab": vocabulary
        }
    }
    with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as file:
        json.dump(content, file)


def lines(path, entries):
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(entry) + "\n" for entry in entries)
