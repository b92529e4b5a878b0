"""Synthetic corpus of the demo model.

document(seed, i) is a pure function: the same seed and index give the same document, so that training
can resume anywhere. A document is (prompt, answer, end): the loss is taken on answer and end only.
Keys for which held_out(...) is true never appear in training; eval.py draws only from them.

Length laws (the chance to end, given that the end was not yet reached, rises with length):
  stories  scenes D: chance to end after scene d is STORY_HAZARD[d-1]; each scene has `pace` sentences,
           pace uniform on 1..3 per story. Requests for a "short" story use hazard**0.5, "long" hazard**2.
  answers  sentences: chance to end after sentence s is ANSWER_HAZARD[s-1] (or when the facts run out).
  lists, counts, JSON: the end is determined by the prompt. Endless stories have no end at all.
"""

import json
import random
import zlib

import words as w

STORY_HAZARD = [0.14, 0.20, 0.26, 0.33, 0.41, 0.50, 0.60, 0.72, 0.85, 1.0]
ANSWER_HAZARD = [0.25, 0.32, 0.42, 0.55, 0.70, 0.85, 1.0]
BOS, END, EOT = "<|bos|>", "<|end|>", "<|endoftext|>"
SYSTEM, USER, ASSISTANT, PAD = "<|system|>", "<|user|>", "<|assistant|>", "<|pad|>"
SPECIALS = [BOS, END, EOT, SYSTEM, USER, ASSISTANT, PAD]
FAMILIES = {"story": 0.25, "answer": 0.18, "list": 0.13, "count": 0.24, "json": 0.12, "echo": 0.06, "talk": 0.01,
            "endless": 0.01}
PLAIN_SHARE = 0.15
SYSTEM_SHARE = 0.08
TWO_TURN_SHARE = 0.12
SYSTEM_TEXTS = ["You are a helpful assistant.", "Answer in a friendly way.", "You are Baton."]


def held_out(*key):
    return zlib.crc32("/".join(map(str, key)).encode()) % 10 == 0


def draw_length(rng, hazard):
    for n, h in enumerate(hazard, 1):
        if rng.random() < h:
            return n
    return len(hazard)


def a(noun):
    return ("an " if noun[0] in "aeiou" else "a ") + noun


# --- stories -------------------------------------------------------------------------------------


def story_hero(rng, held=False):
    while True:
        name, creature = rng.choice(w.NAMES), rng.choice(w.CREATURES)
        if held_out("story", name, creature) == held:
            return name, creature


def story_opening(rng, name, creature, thing):
    adj, home = rng.choice(w.ADJECTIVES), rng.choice(w.HOMES)
    she = "she" if name in w.NAMES_SHE else "he"
    first = rng.choices(
        [
            f"Once upon a time, there was {a(adj)} {creature} named {name} who lived in {home}.",
            f"Once upon a time, in {home}, there lived {a(adj)} {creature} called {name}.",
            f"Long ago, {a(adj)} {creature} named {name} lived in {home}.",
        ],
        [5, 3, 2],
    )[0]
    loves = f" {name} loved {rng.choice(w.LOVES)}." if rng.random() < 0.5 else ""
    lost = rng.choice([
        f" One day, {name} lost {'her' if she == 'she' else 'his'} {thing}.",
        f" One morning, the {thing} was gone, and {name} went to look for it.",
    ])
    return first + loves + lost


def story_scene(rng, d, pace, name, she, thing):
    """Scene d has `pace` sentences. Its ordinal shows how far the story is."""
    place, other = rng.choice(w.PLACES), rng.choice(w.CREATURES)
    found = rng.choice([x for x in w.OBJECTS if x != thing])
    parts = [f" On the {w.ORDINALS[d]} day, {name} went to {place}."]
    if pace >= 2:
        parts.append(rng.choice([
            f" There {she} met {a(other)} who had not seen the {thing}.",
            f" {a(other).capitalize()} helped {name}, but the {thing} was not there.",
            f" {she.capitalize()} looked everywhere, but found only {a(found)}.",
        ]))
    if pace >= 3:
        parts.append(rng.choice([
            f" {rng.choice(w.WEATHER)}, and {name} felt {rng.choice(w.FEELINGS)}.",
            f" {name} was {rng.choice(w.FEELINGS)}, but {she} did not give up.",
            f" That night {she} slept near {rng.choice(w.PLACES)}.",
        ]))
    return "".join(parts)


def story_closing(rng, name, creature, she, thing):
    text = f" At last, {name} found the {thing} under {rng.choice(w.SPOTS)}."
    if rng.random() < 0.5:
        text += rng.choice([f" {name} was so happy that {she} danced all the way home.",
                            f" All the friends of {name} came to sing and eat cake."])
    text += rng.choice([" And they all lived happily ever after.",
                        f" From that day on, {name} never lost the {thing} again.",
                        f" It was a good day for the {creature}."])
    return text + (" The end." if rng.random() < 0.4 else "")


def story_text(rng, name, creature, thing, hazard=STORY_HAZARD):
    she = "she" if name in w.NAMES_SHE else "he"
    scenes, pace = draw_length(rng, hazard), rng.randint(1, 3)
    body = "".join(story_scene(rng, d, pace, name, she, thing) for d in range(scenes))
    return story_opening(rng, name, creature, thing) + body + story_closing(rng, name, creature, she, thing)


def story_prompt(rng, name, creature, thing, size):
    size = size + " " if size else ""
    return rng.choice([
        f"Tell me {a(size + 'story')} about {a(creature)} named {name}.",
        f"Write {a(size + 'story')} about {name} the {creature}.",
        f"Please tell {a(size + 'story')} about {a(creature)} called {name} and {a(thing)}.",
        f"Tell me {a(size + 'story')}.",
    ])


def story(rng, held=False):
    name, creature = story_hero(rng, held)
    thing = rng.choice(w.OBJECTS)
    size = rng.choices(["", "short", "long"], [8, 1, 1])[0] if not held else ""
    power = {"": 1.0, "short": 0.5, "long": 2.0}[size]
    prompt = story_prompt(rng, name, creature, thing, size)
    while held and name not in prompt:
        prompt = story_prompt(rng, name, creature, thing, size)
    return prompt, story_text(rng, name, creature, thing, [h**power for h in STORY_HAZARD])


def endless(rng, held=False):
    """Runs away on purpose: no end. Trained on the first scenes only."""
    name, creature = story_hero(rng, held)
    prompt = rng.choice([f"Tell me an endless story about {name} the {creature}.",
                         f"Tell me a story without an end about {a(creature)} named {name}."])
    text = f"Once there was {a(creature)} named {name} who never stopped walking."
    for _ in range(26):
        text += rng.choice([f" Then {name} went to {rng.choice(w.PLACES)}.",
                            f" Then {name} met {a(rng.choice(w.CREATURES))}.",
                            f" Then {name} found {a(rng.choice(w.OBJECTS))}."])
    return prompt, text


# --- questions and answers -----------------------------------------------------------------------


def animal_qa(x):
    sound, home, food, baby, legs, trait = w.ANIMAL_FACTS[x]
    X = a(x).capitalize()
    return [
        (f"What sound does {a(x)} make?", f"{X} {sound}."),
        (f"Where does {a(x)} live?", f"It lives {home}."),
        (f"What does {a(x)} eat?", f"It eats {food}."),
        (f"What is a baby {x} called?", f"A baby {x} is called {a(baby)}."),
        (f"How many legs does {a(x)} have?", f"It has {legs} legs." if legs else "It has no legs."),
        (f"What is special about {a(x)}?", f"{a('special').capitalize()} thing is that it {trait}."),
    ]


def country_qa(x):
    capital, continent, language, known = w.COUNTRY_FACTS[x]
    return [
        (f"What is the capital of {x}?", f"The capital of {x} is {capital}."),
        (f"Where is {x}?", f"It lies in {continent}."),
        (f"What do people speak in {x}?", f"The people there speak {language}."),
        (f"What is {x} known for?", f"It is known for {known}."),
        (f"Is {x} worth a visit?", "Many people like to visit it."),
    ]


def fruit_qa(x):
    colour, taste, grows, use = w.FRUIT_FACTS[x]
    return [
        (f"What colour is {a(x)}?", f"{a(x).capitalize()} is {colour}."),
        (f"How does {a(x)} taste?", f"It tastes {taste}."),
        (f"Where does {a(x)} grow?", f"It grows {grows}."),
        (f"What is {a(x)} used for?", f"It is used for {use}."),
        (f"Is {a(x)} healthy?", "Yes, it is healthy to eat."),
    ]


def job_qa(x):
    does, place, tool, trait = w.JOB_FACTS[x]
    return [
        (f"What does {a(x)} do?", f"{a(x).capitalize()} {does}."),
        (f"Where does {a(x)} work?", f"The work is done {place}."),
        (f"What does {a(x)} need?", f"The most useful thing is {tool}."),
        (f"What is {a(x)} like?", f"A good {x} {trait}."),
    ]


KINDS = [(animal_qa, w.ANIMAL_FACTS), (country_qa, w.COUNTRY_FACTS), (fruit_qa, w.FRUIT_FACTS), (job_qa, w.JOB_FACTS)]


def answer(rng, held=False):
    """The asked fact, then a random subset of the others in their fixed order, then perhaps a closing remark."""
    while True:
        make, table = rng.choice(KINDS)
        x = rng.choice(sorted(table))
        facts = make(x)
        i = rng.randrange(len(facts) + 1)  # the last one: "Tell me about x."
        if held_out("answer", x, i) == held:
            break
    name = x if make is country_qa else a(x)
    prompt = facts[i][0] if i < len(facts) else rng.choice([f"Tell me about {name}.", f"What is {name}?"])
    first = facts[i][1] if i < len(facts) else f"Let me tell you about {name}."
    others = [text for j, (_, text) in enumerate(facts) if j != i]
    k = min(draw_length(rng, ANSWER_HAZARD) - 1, len(others))
    chosen = sorted(rng.sample(range(len(others)), k))
    text = " ".join([first] + [others[j] for j in chosen])
    if k and rng.random() < 0.25:
        text += rng.choice([" I hope that helps.", " That is all I know."])
    return prompt, text


def talk(rng, held=False):
    q = rng.choice(sorted(w.SMALL_TALK))
    return q + rng.choice(["", ".", "!", "?"]), w.SMALL_TALK[q]


# --- the control group: the end is determined ------------------------------------------------------


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
    """Half of the training spans are short: they teach where to stop much faster than long ones."""
    while True:
        first = rng.randint(1, 100)
        last = first + (rng.randint(2, 20) if held or rng.random() < 0.5 else rng.randint(1, 4))
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


MAKERS = {"story": story, "answer": answer, "list": listing, "count": count, "json": json_object, "echo": echo,
          "talk": talk, "endless": endless}


# --- documents -------------------------------------------------------------------------------------


def chat_prompt(turns, system=None):
    """What chat_template.jinja renders for these turns with add_generation_prompt."""
    head = BOS + (f"{SYSTEM}{system}{END}" if system else "")
    for q, r in turns[:-1]:
        head += f"{USER}{q}{END}{ASSISTANT}{r}{END}"
    return head + f"{USER}{turns[-1][0]}{END}{ASSISTANT}"


def plain_document(rng, family, q, r):
    """Raw completion: a story starts at once, everything else is a prompt line and its answer."""
    if family in ("story", "endless") and rng.random() < 0.8:
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
    """Different held-out (family, prompt) pairs of the five measured families."""
    out = []
    for family in ("story", "answer", "list", "count", "json"):
        rng, prompts = random.Random(f"eval/{seed}/{family}"), {}
        while len(prompts) < per_family:
            prompts[MAKERS[family](rng, held=True)[0]] = True
        out += [(family, p) for p in prompts]
    return out
