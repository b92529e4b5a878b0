"""Writes the EOS oracle: per-step signals and seeded draws, from weights and token ids alone.

Usage: make_eos.py --root . --out tests/golden/eos      (root: of the repository; needs torch and transformers)
"""

import argparse
import json
import pathlib
import random
import struct

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

import oracle

MARGIN = 2e-4  # coins and cuts stay this far from a tie, so that fp32 models draw the same tokens
SETTINGS = {
    "greedy": {"temperature": 0.0},
    "plain": {},
    "cool": {"temperature": 0.8},
    "top_k": {"temperature": 0.9, "top_k": 12},
    "top_p": {"temperature": 1.1, "top_p": 0.85},
    "min_p": {"temperature": 1.0, "min_p": 0.05},
    "all": {"temperature": 0.9, "top_k": 40, "top_p": 0.95, "min_p": 0.01, "repetition_penalty": 1.1,
            "presence_penalty": 0.2, "frequency_penalty": 0.1},
    "ngram": {"temperature": 0.7, "no_repeat_ngram_size": 2},
    "min_tokens": {"temperature": 0.8, "min_tokens": 10},
    "continue": {"temperature": 0.8, "eos_policy": "continue"},
    "mask": {"temperature": 0.8, "eos_policy": "mask"},
    "mask_greedy": {"temperature": 0.0, "eos_policy": "mask"},
}
TINY = {"llama31_hd16": [257, 258], "mistral_hd24": [257], "qwen3_hd80": [257]}
TINY_BIAS = {"llama31_hd16": 5.0, "mistral_hd24": 2.5, "qwen3_hd80": 6.0}
DEMO_PROMPTS = ["Tell me a short story about Milo the fox.", "List 3 fruits.", "What does a cat eat?"]


def round_floats(value):
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, (list, tuple)):
        return [round_floats(v) for v in value]
    return {k: round_floats(v) for k, v in value.items()} if isinstance(value, dict) else value


def float32(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def safe(raw, prompt, output, eos_ids, s):
    """The step under small disturbances of the logits: same token, same kept set?"""
    row, p, _, margin = oracle.step(raw, prompt, output, eos_ids, s)
    if s["temperature"] and margin < MARGIN:
        return row, False
    for seed in range(2):
        rng = random.Random(seed)
        other, q, _, _ = oracle.step([v + rng.uniform(-MARGIN, MARGIN) for v in raw], prompt, output, eos_ids, s)
        if other["token"] != row["token"] or any((a == 0) != (b == 0) for a, b in zip(p, q)):
            return row, False
    return row, True


@torch.inference_mode()
def run(model, prompt, eos_ids, s, max_tokens):
    """A whole request. None if a step was too near a tie."""
    output, steps = [], []
    while len(output) < max_tokens:
        raw = model(torch.tensor([prompt + output])).logits[0, -1].tolist()
        row, ok = safe(raw, prompt, output, eos_ids, s)
        if not ok:
            return None
        output.append(row["token"])
        steps.append(row)
        if s["eos_policy"] == "honor" and row["token"] in set(eos_ids) | set(s["stop_token_ids"]):
            break
    return output, steps


def request(model, name, prompt, eos_ids, setting, s, max_tokens):
    for seed in range(1, 400):
        full = oracle.OFF | s | {"seed": seed}
        got = run(model, prompt, eos_ids, full, max_tokens)
        if got is None and s.get("temperature") == 0.0:
            print(f"skipped {name}/{setting}: near a tie")
            return None
        if got:
            output, steps = got
            natural = next((i + 1 for i, r in enumerate(steps) if r["first_draw"] in eos_ids), 0)
            return {"setting": setting, "prompt_ids": prompt, "eos_ids": eos_ids, "sampling": full,
                    "max_tokens": max_tokens, "output_ids": output, "natural_end_step": natural, "steps": steps}
    raise SystemExit(f"{name}/{setting}: no seed clear of ties")


def tiny_requests(root):
    prompt = [256] + list(b"A small test.")
    for name, eos_ids in TINY.items():
        path = f"tests/golden/models/{name}"
        model = AutoModelForCausalLM.from_pretrained(root / path, dtype=torch.float32, attn_implementation="eager")
        bias = {"logit_bias": [[e, TINY_BIAS[name]] for e in eos_ids]}
        requests = []
        for setting, s in SETTINGS.items():
            requests.append(request(model, name, prompt, eos_ids, setting, s | bias, 20))
        requests.append(request(model, name, prompt, eos_ids, "stop_ids", {"stop_token_ids": [10, 101]} | bias, 20))
        yield name, path, requests


def demo_requests(root):
    path = "models/demo"
    tok = AutoTokenizer.from_pretrained(root / path)
    model = AutoModelForCausalLM.from_pretrained(root / path, dtype=torch.float32, attn_implementation="eager")
    eos_ids = sorted(model.generation_config.eos_token_id)
    requests = []
    for text in DEMO_PROMPTS:
        prompt = tok.encode(tok.apply_chat_template([{"role": "user", "content": text}], tokenize=False,
                                                    add_generation_prompt=True), add_special_tokens=False)
        for setting in ("greedy", "cool", "top_p", "mask", "continue"):
            limit = 60 if "story" in text else 30
            requests.append(request(model, "demo", prompt, eos_ids, setting, SETTINGS[setting], limit))
    yield "demo", path, requests


def sampler_rows(count=60):
    """Dumped logits of a small vocabulary with random settings: no model needed."""
    rng = random.Random(5)
    rows = []
    while len(rows) < count:
        vocab = rng.choice([8, 40, 67])
        raw = [float32(rng.gauss(0, rng.choice([1, 3, 8]))) for _ in range(vocab)]
        if rng.random() < 0.2:  # ties
            raw = [float(round(v)) for v in raw]
        prompt = [rng.randrange(vocab) for _ in range(rng.randint(1, 12))]
        output = [rng.randrange(vocab) for _ in range(rng.randint(0, 12))]
        eos_ids = sorted(rng.sample(range(vocab), rng.choice([0, 1, 1, 2, 3])))
        s = oracle.OFF | random_sampling(rng, vocab)
        stop_ids = set(eos_ids) | set(s["stop_token_ids"])
        if max(oracle.processed(raw, prompt, output, s, stop_ids)) == oracle.MASKED:
            continue
        row, p, u, margin = oracle.step(raw, prompt, output, eos_ids, s)
        if (s["temperature"] and margin < 1e-5) or not cut_is_clear(raw, prompt, output, eos_ids, s, p):
            continue
        rows.append({"logits": raw, "prompt_ids": prompt, "output_ids": output, "eos_ids": eos_ids, "sampling": s,
                     "expect": row | {"coin": u, "probs": p}})
    return rows


def random_sampling(rng, vocab):
    def maybe(value, chance=0.4):
        return value if rng.random() < chance else None
    s = {"temperature": rng.choice([0.0, 0.5, 0.8, 1.0, 1.5]), "top_k": maybe(rng.randint(1, vocab)),
         "top_p": maybe(rng.choice([0.3, 0.7, 0.9, 0.99])), "min_p": maybe(rng.choice([0.01, 0.1, 0.5])),
         "repetition_penalty": maybe(rng.choice([0.8, 1.2, 2.0])), "presence_penalty": maybe(rng.choice([-0.5, 0.7])),
         "frequency_penalty": maybe(rng.choice([-0.2, 0.4])), "no_repeat_ngram_size": maybe(rng.randint(1, 3), 0.2),
         "logit_bias": maybe([[t, rng.choice([-100.0, -1.5, 2.0])] for t in rng.sample(range(vocab), 2)], 0.3),
         "min_tokens": maybe(rng.randint(1, 15), 0.3), "stop_token_ids": maybe(rng.sample(range(vocab), 2), 0.2),
         "eos_policy": maybe("mask", 0.3), "seed": rng.getrandbits(64)}
    if s["eos_policy"]:
        s["stop_token_ids"] = None
    return {k: float32(v) if isinstance(v, float) else v for k, v in s.items() if v is not None}


def cut_is_clear(raw, prompt, output, eos_ids, s, p):
    """Top-p and min-p do not cut within 1e-5 of a token, where fp32 may differ from double."""
    for factor in (1 - 1e-5, 1 + 1e-5):
        near = s | {"top_p": min(1.0, s["top_p"] * factor) if s["top_p"] < 1 else 1.0, "min_p": s["min_p"] * factor}
        q = oracle.step(raw, prompt, output, eos_ids, near)[1]
        if any((a == 0) != (b == 0) for a, b in zip(p, q)):
            return False
    return True


def dump(path, value):
    text = json.dumps(round_floats(value), separators=(",", ":"))
    for key in ('{"setting"', '{"logits"'):
        text = text.replace("," + key, ",\n" + key)
    path.write_text(text + "\n")


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--root", type=pathlib.Path, required=True)
    ap.add_argument("--out", type=pathlib.Path, required=True)
    ap.add_argument("--only", choices=["tiny", "demo", "sampler"])
    args = ap.parse_args()
    torch.set_num_threads(1)
    logging.disable_progress_bar()
    args.out.mkdir(parents=True, exist_ok=True)
    if args.only in (None, "sampler"):
        coins = [{"seed": s, "position": p, "draw": d, "coin": oracle.coin(s, p, d)}
                 for s, p, d in ((0, 0, 0), (1, 5, 0), (1, 5, 1), (2**64 - 1, 4095, 0), (0x123456789ABCDEF0, 77, 1))]
        dump(args.out / "sampler.golden.json", {"coins": coins, "rows": sampler_rows()})
    makers = {"tiny": tiny_requests, "demo": demo_requests}
    for kind in makers if args.only is None else [k for k in makers if k == args.only]:
        for name, path, requests in makers[kind](args.root):
            requests = [r for r in requests if r]
            dump(args.out / f"{name}.golden.json", {"model": path, "requests": requests})
            print(name, len(requests), "requests,", sum(len(r["steps"]) for r in requests), "steps,",
                  sum(r["natural_end_step"] > 0 for r in requests), "natural ends", flush=True)


if __name__ == "__main__":
    main()
