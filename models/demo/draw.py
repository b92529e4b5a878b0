"""What every family of the demo corpus uses."""

import zlib

# Of a family with 400 equally frequent prompts, one that is left stays unseen with a chance of e^-5.
DRAWS_WITHOUT_A_NEW_ONE = 2000


def held_out(*key):
    return zlib.crc32("/".join(map(str, key)).encode()) % 10 == 0


def draw_length(rng, hazard):
    for n, h in enumerate(hazard, 1):
        if rng.random() < h:
            return n
    return len(hazard)


def different(draw, number, drawn=()):
    """At most `number` values of draw() that differ from each other and from `drawn`, as a list in the order drawn.
    There may be fewer: a family has only so many prompts, and `DRAWS_WITHOUT_A_NEW_ONE` end the search."""
    found, since = {}, 0
    while len(found) < number and since < DRAWS_WITHOUT_A_NEW_ONE:
        value = draw()
        since += 1
        if value not in drawn and value not in found:
            found[value], since = True, 0
    return list(found)


def a(noun):
    return ("an " if noun[0] in "aeiou" else "a ") + noun
