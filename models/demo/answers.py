"""Short questions and answers about a small world, and small talk."""

import words as w
from draw import a, draw_length, held_out

# Chance to end after sentence s, given that the answer got there; it also ends when the facts run out.
ANSWER_HAZARD = [0.25, 0.32, 0.42, 0.55, 0.70, 0.85, 1.0]
# Questions that ask for a "short" or a "long" answer raise the hazard to this power.
SIZE_POWER = {"": 1.0, "short": 0.2, "long": 3.0}
SIZE_SHARES = {"": 4, "short": 1, "long": 1}
SIZE_WORDS = {"": ["{}"], "short": ["{} Keep it short.", "In short: {}"], "long": ["{} Tell me more.", "In detail: {}"]}


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


def answer(rng, held=False, size=None):
    """The asked fact, then a random subset of the others in their fixed order, then perhaps a closing remark.

    A size of None draws one for training; held-out questions have none then.
    """
    while True:
        make, table = rng.choice(KINDS)
        x = rng.choice(sorted(table))
        facts = make(x)
        i = rng.randrange(len(facts) + 1)  # the last one: "Tell me about x."
        if held_out("answer", x, i) == held:
            break
    name = x if make is country_qa else a(x)
    if size is None:
        size = rng.choices(list(SIZE_SHARES), list(SIZE_SHARES.values()))[0] if not held else ""
    prompt = facts[i][0] if i < len(facts) else rng.choice([f"Tell me about {name}.", f"What is {name}?"])
    first = facts[i][1] if i < len(facts) else f"Let me tell you about {name}."
    others = [text for j, (_, text) in enumerate(facts) if j != i]
    k = min(draw_length(rng, [h ** SIZE_POWER[size] for h in ANSWER_HAZARD]) - 1, len(others))
    chosen = sorted(rng.sample(range(len(others)), k))
    text = " ".join([first] + [others[j] for j in chosen])
    if k and rng.random() < 0.25:
        text += rng.choice([" I hope that helps.", " That is all I know."])
    return rng.choice(SIZE_WORDS[size]).format(prompt), text


def talk(rng, held=False):
    q = rng.choice(sorted(w.SMALL_TALK))
    return q + rng.choice(["", ".", "!", "?"]), w.SMALL_TALK[q]
