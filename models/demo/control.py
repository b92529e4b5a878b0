"""The control group, whose end is determined by the prompt: lists, counts, JSON objects, echoes."""

import json

import words as w
from draw import held_out


def listing(rng, held=False):
    while True:
        kind, n = rng.choice(sorted(w.LISTS)), rng.randint(2, 10)
        if held_out("list", kind, n) == held:
            break
    number = n if rng.random() < 0.6 else w.NUMBER_WORDS[n]
    prompt = rng.choice([f"List {number} {kind}.", f"Name {number} {kind}.", f"Give me a list of {number} {kind}.",
                         f"Write down {number} {kind}, please."])
    return prompt, "\n".join(f"{i}. {x}" for i, x in enumerate(rng.sample(w.LISTS[kind], n), 1))


def count(rng, held=False):
    """Up to 20: the model must see that the number just written is the last one asked for."""
    while True:
        first, last = sorted(rng.sample(range(1, 21), 2))
        if held_out("count", first, last) == held:
            break
    prompt = rng.choice([f"Count from {first} to {last}.", f"Please count from {first} to {last}.",
                         f"Count up from {first} to {last}."])
    return prompt, "Counting: " + ", ".join(map(str, range(first, last + 1))) + "."


WORDS = sorted({x for items in w.LISTS.values() for x in items} | {*w.CREATURES, *w.OBJECTS, *w.NAMES, *w.ADJECTIVES})


def echo(rng, held=False):
    """Copying, which the other families need too."""
    said = ", ".join(rng.choice(WORDS) if rng.random() < 0.6 else str(rng.randint(1, 120))
                     for _ in range(rng.randint(2, 8)))
    return rng.choice([f"Repeat: {said}.", f"Say {said}.", f"Repeat after me: {said}."]), f"I say: {said}."


def json_fields(rng, kind):
    age = rng.randint(1, 99)
    return {
        "person": {"name": rng.choice(w.NAMES), "age": age, "city": rng.choice(w.LISTS["cities"]),
                   "job": rng.choice(w.LISTS["jobs"])},
        "pet": {"name": rng.choice(w.NAMES), "animal": rng.choice(w.LISTS["animals"]), "age": rng.randint(1, 20),
                "colour": rng.choice(w.LISTS["colours"])},
        "product": {"product": rng.choice(w.LISTS["toys"]), "price": age, "colour": rng.choice(w.LISTS["colours"]),
                    "sold": rng.choice([True, False])},
        "meal": {"fruit": rng.choice(w.LISTS["fruits"]), "drink": rng.choice(w.LISTS["drinks"]),
                 "guests": rng.randint(1, 30)},
        "team": {"team": rng.choice(w.LISTS["cities"]), "sport": rng.choice(w.LISTS["sports"]),
                 "players": rng.sample(w.NAMES, rng.randint(1, 4))},
    }[kind]


def json_object(rng, held=False):
    while True:
        kind = rng.choice(["person", "pet", "product", "meal", "team"])
        fields = json_fields(rng, kind)
        keys = rng.sample(list(fields), rng.randint(2, len(fields)))
        if held_out("json", kind, *keys, fields[keys[0]]) == held:
            break
    value = {k: fields[k] for k in keys}
    if rng.random() < 0.5:
        said = [f"{k} {', '.join(v) if isinstance(v, list) else json.dumps(v).strip(chr(34))}" for k, v in value.items()]
        prompt = f"Write a JSON object for a {kind} with {' and '.join(said)}."
    else:
        prompt = f"Write a JSON object for a {kind} with the keys {', '.join(keys[:-1])} and {keys[-1]}."
    return prompt, json.dumps(value)
