"""The prompts of the EOS dataset (`scripts/eos dataset`): the demo model's own families, seeded.

dataset_prompts(seed, scale) is a pure function. The prompts of a family differ from each other, and are split
60/20/20 into train, validation and test; one family is held out whole. Prompts may be ones that the model was trained
on: what is learnt from the dataset is how its answers end, not what it knows.
"""

import random

from corpus import MAKERS
from draw import different

# Prompts of each family at scale 1, by the size that they ask for.
COUNTS = {
    "story": {"": 220, "short": 110, "long": 110},
    "answer": {"": 180, "short": 90, "long": 90},
    "list": {"": 70},
    "count": {"": 70},
    "json": {"": 60},
    "echo": {"": 40},
    "talk": {"": 20},
    "endless": {"": 40},
}
HELD_OUT = "list"
SPLITS = (("train", 0.6), ("validation", 0.8), ("test", 1.0))
# Where the censored arm cuts an answer is drawn evenly in its logarithm.
CUT_LEAST, CUT_MOST = 4, 256


def draw_prompt(rng, family, size):
    sized = {"size": size} if family in ("story", "answer") else {}
    return MAKERS[family](rng, **sized)[0]


def family_prompts(seed, family, scale):
    """Different prompts as (size, text), the sizes mixed; fewer than scale asks for where a family has no more."""
    rng, prompts = random.Random(f"dataset/{seed}/{family}"), {}
    for size, number in COUNTS[family].items():
        number = max(1, round(number * scale))
        prompts |= dict.fromkeys(different(lambda: draw_prompt(rng, family, size), number, prompts), size)
    mixed = [(size, text) for text, size in prompts.items()]
    rng.shuffle(mixed)
    return mixed


def split_of(place, number, family):
    """Of the prompt at `place` of the `number` of its family."""
    if family == HELD_OUT:
        return "held_out"
    return next(name for name, until in SPLITS if (place + 0.5) / number < until)


def dataset_prompts(seed=1, scale=1.0):
    """One dict per prompt: family, size, split, prompt, cut (max_tokens of the censored arm)."""
    rng, out = random.Random(f"dataset/{seed}/cuts"), []
    for family in COUNTS:
        prompts = family_prompts(seed, family, scale)
        for place, (size, text) in enumerate(prompts):
            out.append({"family": family, "size": size, "split": split_of(place, len(prompts), family),
                        "prompt": text, "cut": round(CUT_LEAST * (CUT_MOST / CUT_LEAST) ** rng.random())})
    return out
