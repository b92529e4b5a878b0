"""Shares of right answers, with what the number of prompts leaves open."""

import random

DRAWS = 2000


def share(right, seed=1):
    """(share, low, high) of `right`: per prompt a list, equally long, of whether each answer was right.

    The interval is of 95 % over prompts, which are drawn again, since answers to one prompt are alike. Where
    all prompts say the same, drawing tells nothing; the bound is then the share that would show this with a
    chance of 2.5 %.
    """
    means = [sum(answers) / len(answers) for answers in right]
    number = len(means)
    mean = sum(means) / number
    if mean in (0, 1):
        room = 1 - 0.025 ** (1 / number)
        return mean, max(0.0, mean - room), min(1.0, mean + room)
    rng = random.Random(seed)
    drawn = sorted(sum(rng.choices(means, k=number)) / number for _ in range(DRAWS))
    return mean, drawn[round(0.025 * DRAWS)], drawn[round(0.975 * DRAWS) - 1]
