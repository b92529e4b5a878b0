"""The EOS signal and the sampler, written once more in plain Python doubles. Standard library only.

Rules (DESIGN section 5, INTERFACES sections 2 and 3): repetition penalty over prompt and output, presence and
frequency over output only, bias, masks (no-repeat n-gram, min_tokens), temperature, top-k, top-p, min-p.
Ranking for top-k and top-p is (logit descending, id ascending). The coin is Philox4x32-10.
"""

import math

OFF = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0,
       "frequency_penalty": 0.0, "no_repeat_ngram_size": 0, "logit_bias": [], "min_tokens": 0, "seed": 0,
       "eos_policy": "honor", "stop_token_ids": []}
MASKED = -math.inf


def philox(counter, key):
    c, k0, k1 = list(counter), key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [p1 >> 32 ^ c[1] ^ k0, p1 & 0xFFFFFFFF, p0 >> 32 ^ c[3] ^ k1, p0 & 0xFFFFFFFF]
        k0, k1 = k0 + 0x9E3779B9 & 0xFFFFFFFF, k1 + 0xBB67AE85 & 0xFFFFFFFF
    return c


def coin(seed, position, draw):
    w = philox((position, draw, 0, 0), seed)
    return ((w[0] << 32 | w[1]) >> 11) * 2.0**-53


def log_softmax(x):
    top = max(x)
    total = math.log(math.fsum(math.exp(v - top) for v in x)) + top
    return [v - total for v in x]


def signal(raw, eos_ids):
    """What a step says about ending, from the raw distribution alone."""
    lp = log_softmax(raw)
    p = [math.exp(v) for v in lp]
    row = {"eos_logprob": None, "eos_prob": None, "eos_rank": 0,
           "entropy": -math.fsum(a * b for a, b in zip(p, lp) if a > 0), "top1_prob": max(p)}
    if eos_ids:
        row["eos_prob"] = math.fsum(p[e] for e in eos_ids)
        row["eos_logprob"] = math.log(row["eos_prob"])
        best = min(eos_ids, key=lambda e: (-raw[e], e))
        row["eos_rank"] = 1 + sum((-v, i) < (-raw[best], best) for i, v in enumerate(raw))
    return row


def processed(raw, prompt, output, s, stop_ids):
    x = list(raw)
    for t in set(prompt) | set(output):
        x[t] = x[t] / s["repetition_penalty"] if x[t] > 0 else x[t] * s["repetition_penalty"]
    for t in set(output):
        x[t] -= s["presence_penalty"] + s["frequency_penalty"] * output.count(t)
    for t, bias in s["logit_bias"]:
        x[t] += bias
    n, all_ids = s["no_repeat_ngram_size"], prompt + output
    if n and len(all_ids) >= n:
        for i in range(len(all_ids) - n + 1):
            if n == 1 or all_ids[i : i + n - 1] == all_ids[-(n - 1):]:
                x[all_ids[i + n - 1]] = MASKED
    if len(output) < s["min_tokens"]:
        for t in stop_ids:
            x[t] = MASKED
    return x


def probabilities(x, s):
    """Of the draw, after temperature, top-k, top-p and min-p."""
    ranked = sorted(range(len(x)), key=lambda i: (-x[i], i))
    if s["temperature"] == 0:
        return [float(i == ranked[0]) for i in range(len(x))]
    w = [math.exp((v - x[ranked[0]]) / s["temperature"]) for v in x]
    kept = ranked[: s["top_k"] or len(x)]
    needed, before, nucleus = s["top_p"] * math.fsum(w[i] for i in kept), 0.0, []
    for i in kept:
        if s["top_p"] < 1 and nucleus and before >= needed:
            break
        nucleus.append(i)
        before += w[i]
    kept = {i for i in nucleus if w[i] >= s["min_p"]}
    total = math.fsum(w[i] for i in kept)
    return [w[i] / total if i in kept else 0.0 for i in range(len(x))]


def draw(p, u):
    """The first id whose running sum exceeds u, and how near u came to another id's interval."""
    running, last, margin = 0.0, 0, 1.0
    for i, v in enumerate(p):
        if v == 0:
            continue
        running, last = running + v, i
        margin = min(margin, abs(running - u))
        if running > u:
            return i, margin
    return last, margin


def step(raw, prompt, output, eos_ids, s):
    """One step: the signal, the token, whether a first draw was EOS, and the smallest margin of its coins."""
    stop_ids = sorted(set(eos_ids) | set(s["stop_token_ids"]))
    position = len(prompt) + len(output)
    x = processed(raw, prompt, output, s, stop_ids)
    p = probabilities(x, s)
    row = signal(raw, eos_ids) | {"eos_prob_sampling": math.fsum(p[t] for t in stop_ids)}
    u = coin(s["seed"], position, 0)
    token, margin = draw(p, u)
    first = token
    if s["eos_policy"] == "mask" and token in eos_ids:
        for t in eos_ids:
            x[t] = MASKED
        token, second = draw(probabilities(x, s), coin(s["seed"], position, 1))
        margin = min(margin, second)
    row |= {"token": token, "first_draw": first, "logprob": log_softmax(raw)[token]}
    return row, p, u, margin
