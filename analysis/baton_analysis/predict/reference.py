"""The features of a row, said as plainly as possible. `features` computes the same for whole
answers at once, and the service in constant time per row; both are held to this."""

import math
from typing import NamedTuple

NONE = -30.0  # of a log-odds that is not there


class Row(NamedTuple):
    """What the service knows of a token that it sampled."""

    eos_logprob: float | None
    eos_prob_sampling: float | None
    entropy: float | None
    top1_prob: float | None
    eos_rank: float | None
    token: int
    boundary: bool  # the token ends a sentence or a line
    line: bool  # it ends a line
    probe: tuple[float, ...] = ()


class Request(NamedTuple):
    prompt_length: int
    temperature: float
    top_p: float
    length_class: str = ""


def known(value, otherwise: float) -> float:
    return float(value) if value is not None and math.isfinite(value) else otherwise


def log_odds(logprob) -> float:
    logprob = known(logprob, NONE)
    return clamp(logprob - math.log1p(-math.exp(min(logprob, -1e-7))), -30, 30)


def sampling(prob) -> float:
    return clamp(known(prob, 0), 1e-13, 1 - 1e-7)


def log_odds_sampling(prob) -> float:
    prob = sampling(prob)
    return clamp(math.log(prob) - math.log1p(-prob), -30, 30)


def clamp(value, low, high):
    return max(low, min(high, value))


def features_of(rows: list[Row], request: Request) -> dict[str, float]:
    """Of the last of `rows`, which are the answer so far."""
    t, row = len(rows), rows[-1]
    lo = [log_odds(each.eos_logprob) for each in rows]
    so = [log_odds_sampling(each.eos_prob_sampling) for each in rows]
    entropy = [known(each.entropy, 0) for each in rows]
    found = {
        "step": t,
        "log_step": math.log(t),
        "log_prompt": math.log(1 + request.prompt_length),
        "temperature": request.temperature,
        "top_p": request.top_p,
        "lo": lo[-1],
        "so": so[-1],
        "entropy": entropy[-1],
        "top1": known(row.top1_prob, 0),
        "log_rank": math.log(max(known(row.eos_rank, 1), 1)),
    }
    for name, count in (("8", 8), ("32", 32), ("", t)):
        name = f"lo_{{}}{name}".format
        part = lo[-count:]
        found[name("mean")] = mean(part)
        found[name("max")] = max(part)
        found[name("std")] = math.sqrt(mean([(value - mean(part))**2 for value in part]))
    found["lo_max16"], found["lo_max64"] = max(lo[-16:]), max(lo[-64:])
    found["lo_slope32"] = slope(lo[-32:])
    found["so_mean32"], found["so_max32"] = mean(so[-32:]), max(so[-32:])
    found["ent_mean8"], found["ent_mean32"] = mean(entropy[-8:]), mean(entropy[-32:])
    for window in (8, 32, 128):
        found[f"lo_ema{window}"] = moving(lo, 2 / (window + 1))
    hazards = [-math.log1p(-sampling(each.eos_prob_sampling)) for each in rows]
    found["cum_hazard"] = min(sum(hazards), 50)
    found["repeat4"] = repeated([each.token for each in rows])
    found |= boundary_features(rows, lo, so)
    found |= {f"probe[{i}]": value for i, value in enumerate(row.probe)}
    found |= {f"first_probe[{i}]": value for i, value in enumerate(rows[0].probe)}
    return found


def boundary_features(rows, lo, so) -> dict[str, float]:
    t = len(rows)
    boundaries = [at for at, row in enumerate(rows) if row.boundary]
    after = [at + 1 for at in boundaries if at + 1 < t]
    last = [lo[at] for at in after][-3:]
    last = [None] * (3 - len(last)) + last
    return {
        "boundary": float(rows[-1].boundary),
        "line": float(rows[-1].line),
        "since_boundary": t - 1 - boundaries[-1] if boundaries else t,
        "boundaries": len(boundaries),
        "after_lo": NONE if last[2] is None else last[2],
        "after_lo_prev": NONE if last[1] is None else last[1],
        "after_lo_prev2": NONE if last[0] is None else last[0],
        "after_so": so[after[-1]] if after else NONE,
        "after_rise": 0.0 if last[0] is None else last[2] - last[0],
        "after_so_max": max((so[at] for at in after), default=NONE),
        "boundary_lo": lo[boundaries[-1]] if boundaries else NONE,
    }


def mean(values) -> float:
    return sum(values) / len(values)


def slope(values) -> float:
    """By least squares, per row."""
    if len(values) < 2:
        return 0.0
    middle = (len(values) - 1) / 2
    up = sum((at - middle) * value for at, value in enumerate(values))
    return up / sum((at - middle)**2 for at in range(len(values)))


def moving(values, share) -> float:
    average = values[0]
    for value in values:
        average += (value - average) * share
    return average


def repeated(tokens) -> float:
    """The share of the last 64 4-grams that stand among the 64 before each."""
    grams = [tuple(tokens[at:at + 4]) for at in range(len(tokens) - 3)]
    again = [gram in grams[max(0, at - 64):at] for at, gram in enumerate(grams)]
    return mean(again[-64:]) if again else 0.0
