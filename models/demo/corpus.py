"""Synthetic corpus of the demo model: which families, how often, and in which form.

document(seed, i) is a pure function: the same seed and index give the same document, so that training
can resume anywhere. A document is (prompt, answer, end): the loss is taken on answer and end only.
An endless document has no end token and is longer than any context: train.py takes windows of it.
Keys for which held_out(...) is true never appear in training; eval.py draws only from them.
The length laws stand in stories.py and answers.py; control.py has the families whose end is determined.
"""

import random
import re

from answers import answer, talk
from control import count, echo, json_object, listing
from draw import different
from stories import endless, story

BOS, END, EOT = "<|bos|>", "<|end|>", "<|endoftext|>"
SYSTEM, USER, ASSISTANT, PAD = "<|system|>", "<|user|>", "<|assistant|>", "<|pad|>"
SPECIALS = [BOS, END, EOT, SYSTEM, USER, ASSISTANT, PAD]
FAMILIES = {"story": 0.18, "answer": 0.12, "list": 0.12, "count": 0.37, "json": 0.09, "echo": 0.06, "talk": 0.04,
            "endless": 0.02}
MAKERS = {"story": story, "answer": answer, "list": listing, "count": count, "json": json_object, "echo": echo,
          "talk": talk, "endless": endless}
PLAIN_SHARE = 0.15  # raw completions without the chat template; they end with EOT
SYSTEM_SHARE = 0.08
TWO_TURN_SHARE = 0.12
SYSTEM_TEXTS = ["You are a helpful assistant.", "Answer in a friendly way.", "You are Baton."]


def chat_prompt(turns, system=None):
    """What chat_template.jinja renders for these turns with add_generation_prompt."""
    head = BOS + (f"{SYSTEM}{system}{END}" if system else "")
    for q, r in turns[:-1]:
        head += f"{USER}{q}{END}{ASSISTANT}{r}{END}"
    return head + f"{USER}{turns[-1][0]}{END}{ASSISTANT}"


def plain_document(rng, family, q, r):
    """Raw completion: a story of no asked size starts at once, everything else is a prompt line and its answer."""
    if family in ("story", "endless") and not re.search(r" (short|long) story", q) and rng.random() < 0.8:
        return BOS, r, EOT
    return f"{BOS}{q}\n", r, EOT


def document(seed, i):
    rng = random.Random(f"{seed}/{i}")
    family = rng.choices(list(FAMILIES), list(FAMILIES.values()))[0]
    q, r = MAKERS[family](rng)
    if rng.random() < PLAIN_SHARE and family != "talk":
        prompt, text, end = plain_document(rng, family, q, r)
    else:
        turns = [(q, r)]
        if rng.random() < TWO_TURN_SHARE:
            turns.insert(0, MAKERS[rng.choice(["answer", "list", "count", "talk"])](rng))
        prompt, text, end = chat_prompt(turns, rng.choice(SYSTEM_TEXTS) if rng.random() < SYSTEM_SHARE else None), r, END
    return prompt, text, "" if family == "endless" else end


def eval_prompts(seed, per_family):
    """Different held-out (family, prompt) pairs of the five measured families. A family of which fewer are held out than
    `per_family` has all of these, or nearly all."""
    out = []
    for family in ("story", "answer", "list", "count", "json"):
        rng = random.Random(f"eval/{seed}/{family}")
        prompts = different(lambda: MAKERS[family](rng, held=True)[0], per_family)
        out += [(family, prompt) for prompt in prompts]
    return out
