"""Writes documents of the demo model's corpus that its training never saw, for bench_quantized.

Usage: held_out_text.py [--documents 400] [--seed 7] > TEXT

A line is a JSON array [prompt, answer]. Prompts come from corpus.eval_prompts, of every measured family as many.
"""

import argparse
import json
import random

import corpus


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--documents", type=int, default=400)
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    families = ("story", "answer", "list", "count", "json")
    for family in families:
        rng = random.Random(f"text/{args.seed}/{family}")
        for _ in range(args.documents // len(families)):
            question, answer = corpus.MAKERS[family](rng, held=True)
            print(json.dumps([corpus.chat_prompt([(question, "")]), answer + corpus.END]))


if __name__ == "__main__":
    main()
