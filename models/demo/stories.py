"""Stories: scenes with a counted day, so that how far the story is stands in the text, and endless ones."""

import words as w
from draw import a, draw_length, held_out

# Chance to end after scene d, given that the story got there. A scene has `pace` sentences, 1..3 per story.
STORY_HAZARD = [0.14, 0.20, 0.26, 0.33, 0.41, 0.50, 0.60, 0.72, 0.85, 1.0]
# Requests for a "short" or a "long" story raise the hazard to this power, and have scenes of this many sentences.
SIZE_POWER = {"": 1.0, "short": 0.25, "long": 2.5}
SIZE_PACE = {"": (1, 3), "short": (1, 1), "long": (2, 3)}
SIZE_SHARES = {"": 2, "short": 1, "long": 1}
# An endless story is cut where the training context ends; this many sentences always fill it.
ENDLESS_SENTENCES = 240


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


def story_text(rng, name, creature, thing, size=""):
    she = "she" if name in w.NAMES_SHE else "he"
    scenes = draw_length(rng, [h ** SIZE_POWER[size] for h in STORY_HAZARD])
    pace = rng.randint(*SIZE_PACE[size])
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


def story(rng, held=False, size=None):
    """A size of None draws one for training; held-out stories have none then."""
    name, creature = story_hero(rng, held)
    thing = rng.choice(w.OBJECTS)
    if size is None:
        size = rng.choices(list(SIZE_SHARES), list(SIZE_SHARES.values()))[0] if not held else ""
    prompt = story_prompt(rng, name, creature, thing, size)
    while held and name not in prompt:
        prompt = story_prompt(rng, name, creature, thing, size)
    return prompt, story_text(rng, name, creature, thing, size)


def endless(rng, held=False):
    """Runs away on purpose: every sentence is like the one before it, and no end ever comes."""
    name, creature = story_hero(rng, held)
    prompt = rng.choice([f"Tell me an endless story about {name} the {creature}.",
                         f"Tell me a story without an end about {a(creature)} named {name}."])
    text = f"Once there was {a(creature)} named {name} who never stopped walking."
    for _ in range(ENDLESS_SENTENCES):
        text += rng.choice([f" Then {name} went to {rng.choice(w.PLACES)}.",
                            f" Then {name} met {a(rng.choice(w.CREATURES))}.",
                            f" Then {name} found {a(rng.choice(w.OBJECTS))}."])
    return prompt, text
