"""Measures the demo model on held-out prompts, greedy and at temperature 0.8; then what "short", "long" and
"endless" do, at temperature 0.8.

Usage: eval.py MODEL_DIR [--per-family 40] [--draws 1] [--seed 7] [--json FILE]
Prompts come from corpus.eval_prompts: combinations that training never saw. A family with fewer of them than
--per-family is asked all it has. At temperature 0.8 --draws answers are drawn to each prompt whose answer is right or
wrong; the shares of right ones have intervals of 95 % over prompts. Exit status 1 if a bound is missed.
"""

import argparse
import json
import random
import re
import statistics
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import corpus
import shares
import words

LIMIT = {"story": 600, "endless": 1000}
OTHER_LIMIT = 256
BATCH = 128  # answers at a time, which bounds the memory
STORY_PROMPT = "Tell me a story about a fox named Milo."
NUMBERS = {v: k for k, v in words.NUMBER_WORDS.items()}


@torch.inference_mode()
def generate(model, tok, prompts, limit, temperature=0.0, seed=0):
    """Batched chat generation; returns (text, tokens including EOS, ended by EOS) per prompt."""
    torch.manual_seed(seed)
    tok.padding_side = "left"
    results = []
    for start in range(0, len(prompts), BATCH):
        results += generate_batch(model, tok, prompts[start : start + BATCH], limit, temperature)
    return results


def generate_batch(model, tok, prompts, limit, temperature):
    texts = [tok.apply_chat_template([{"role": "user", "content": p}], add_generation_prompt=True, tokenize=False)
             for p in prompts]
    batch = tok(texts, add_special_tokens=False, padding=True, return_tensors="pt")
    sampling = {"do_sample": True, "temperature": temperature, "top_k": 0} if temperature else {"do_sample": False}
    out = model.generate(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], max_new_tokens=limit,
                         **sampling)
    eos, results = set(model.generation_config.eos_token_id), []
    for row in out[:, batch["input_ids"].shape[1] :].tolist():
        end = next((i for i, t in enumerate(row) if t in eos), None)
        ids = row[:end] if end is not None else row
        results.append((tok.decode(ids, skip_special_tokens=True), len(ids) + (end is not None), end is not None))
    return results


def right_count(prompt, text):
    first, last = map(int, re.findall(r"\d+", prompt))
    return [int(x) for x in re.findall(r"\d+", text)] == list(range(first, last + 1))


def right_list(prompt, text):
    n = next(int(x) if x.isdigit() else NUMBERS[x] for x in re.findall(r"\w+", prompt) if x.isdigit() or x in NUMBERS)
    lines = text.split("\n")
    return len(lines) == n and all(re.fullmatch(rf"{i}\. \S.*", line) for i, line in enumerate(lines, 1))


def right_json(prompt, text):
    try:
        return isinstance(json.loads(text), dict)
    except json.JSONDecodeError:
        return False


RIGHT = {"list": right_list, "count": right_count, "json": right_json}
BOUNDS = {"list": 0.90, "count": 0.80, "json": 0.90}
SHORT_MOST, LONG_LEAST = 0.6, 1.5  # mean length as a share of that without a word about it
ENDLESS_ENDED_MOST = 0.1


def measure(model, tok, prompts, temperature, draws=1):
    report = {}
    for family in dict.fromkeys(f for f, _ in prompts):
        asked = [p for f, p in prompts if f == family]
        drawn = [generate(model, tok, asked, LIMIT.get(family, OTHER_LIMIT), temperature, seed)
                 for seed in range(draws if family in RIGHT else 1)]
        got = [answer for answers in drawn for answer in answers]
        lengths = [n for _, n, _ in got]
        row = {"prompts": len(asked), "answers": len(got), "ended_by_eos": sum(e for _, _, e in got),
               "min_tokens": min(lengths), "mean_tokens": round(statistics.mean(lengths), 1),
               "max_tokens": max(lengths)}
        if family in RIGHT:
            right = [[RIGHT[family](p, text) for text, _, _ in answers] for p, answers in zip(asked, zip(*drawn))]
            row["right"] = sum(map(sum, right))
            row["right_share"] = [round(x, 3) for x in shares.share(right)]
        report[family] = row
        print(f"temperature {temperature}: {family:7} {json.dumps(row)}", flush=True)
    return report


def story_variation(model, tok, prompt, seeds=20):
    lengths = [n for _, n, _ in generate(model, tok, [prompt] * seeds, LIMIT["story"], 0.8, seed=1)]
    cv = statistics.stdev(lengths) / statistics.mean(lengths)
    row = {"prompt": prompt, "mean": statistics.mean(lengths), "cv": round(cv, 3), "lengths": sorted(lengths)}
    print(json.dumps(row), flush=True)
    return row


def size_report(model, tok, seed, number):
    """Mean lengths at temperature 0.8 of stories and answers that are asked to be short or long, and their shares."""
    report = {}
    for family in ("story", "answer"):
        means = {}
        for size in ("", "short", "long"):
            rng = random.Random(f"sizes/{seed}/{family}/{size}")
            asked = [corpus.MAKERS[family](rng, held=True, size=size)[0] for _ in range(number)]
            got = generate(model, tok, asked, LIMIT.get(family, OTHER_LIMIT), 0.8, seed=2)
            means[size] = statistics.mean(n for _, n, _ in got)
        report[family] = {"mean": round(means[""], 1), "short": round(means["short"], 1),
                          "long": round(means["long"], 1), "short_share": round(means["short"] / means[""], 3),
                          "long_share": round(means["long"] / means[""], 3)}
        print(f"sizes: {family:7} {json.dumps(report[family])}", flush=True)
    return report


def endless_report(model, tok, seed, number):
    rng = random.Random(f"endless/{seed}")
    asked = [corpus.MAKERS["endless"](rng, held=True)[0] for _ in range(number)]
    got = generate(model, tok, asked, LIMIT["endless"], 0.8, seed=3)
    row = {"prompts": number, "limit": LIMIT["endless"], "ended_by_eos": sum(e for _, _, e in got),
           "lengths_of_ended": sorted(n for _, n, e in got if e)}
    print(f"endless: {json.dumps(row)}", flush=True)
    return row


def size_failures(sizes, endless):
    bad = []
    for family, row in sizes.items():
        if row["short_share"] > SHORT_MOST:
            bad.append(f"short: {family} {row['short_share']}")
        if row["long_share"] < LONG_LEAST:
            bad.append(f"long: {family} {row['long_share']}")
    if endless["ended_by_eos"] > ENDLESS_ENDED_MOST * endless["prompts"]:
        bad.append(f"endless that ended: {endless['ended_by_eos']}")
    return bad


def failures(greedy, sampled, cv):
    bad = [f"right: {f}" for f, bound in BOUNDS.items() if greedy[f]["right"] < bound * greedy[f]["answers"]]
    for name, report in (("greedy", greedy), ("sampled", sampled)):
        ended = sum(r["ended_by_eos"] for r in report.values())
        if ended < 0.95 * sum(r["answers"] for r in report.values()):
            bad.append(f"ended by EOS, {name}: {ended}")
    return bad + ([f"story CV {cv}"] if cv < 0.3 else [])


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("model")
    ap.add_argument("--per-family", type=int, default=40, help="different prompts of each, at most")
    ap.add_argument("--draws", type=int, default=1, help="answers at temperature 0.8 to prompts whose answer is right or wrong")
    ap.add_argument("--seed", type=int, default=7)
    ap.add_argument("--json")
    args = ap.parse_args()
    if args.per_family < 1 or args.draws < 1:
        ap.error("--per-family and --draws are at least 1")
    tok = AutoTokenizer.from_pretrained(args.model)
    model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32).eval()
    prompts = corpus.eval_prompts(args.seed, args.per_family)
    greedy = measure(model, tok, prompts, 0.0)
    sampled = measure(model, tok, prompts, 0.8, args.draws)
    variation = story_variation(model, tok, STORY_PROMPT)
    sizes = size_report(model, tok, args.seed, args.per_family)
    endless = endless_report(model, tok, args.seed, args.per_family)
    bad = failures(greedy, sampled, variation["cv"]) + size_failures(sizes, endless)
    print("missed: " + "; ".join(bad) if bad else "all bounds hold")
    if args.json:
        with open(args.json, "w") as f:
            json.dump({"greedy": greedy, "temperature_0.8": sampled, "story": variation, "sizes": sizes,
                       "endless": endless}, f, indent=1)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
