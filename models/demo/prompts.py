"""Writes prompts.jsonl: chats that the model ends by itself, for `baton bench --prompts` and its like.

Usage: prompts.py > prompts.jsonl
"""

import json
import random

import corpus

PER_FAMILY = 12


def main():
    asked = [prompt for _, prompt in corpus.eval_prompts(seed=7, per_family=PER_FAMILY)]
    random.Random("prompts").shuffle(asked)  # families mixed, whatever part of the file is used
    for prompt in asked:
        # The tokenizer puts the BOS in front of a text.
        text = corpus.chat_prompt([(prompt, None)]).removeprefix(corpus.BOS)
        print(json.dumps({"prompt": text}))


if __name__ == "__main__":
    main()
