"""What every family of the demo corpus uses."""

import zlib


def held_out(*key):
    return zlib.crc32("/".join(map(str, key)).encode()) % 10 == 0


def draw_length(rng, hazard):
    for n, h in enumerate(hazard, 1):
        if rng.random() < h:
            return n
    return len(hazard)


def a(noun):
    return ("an " if noun[0] in "aeiou" else "a ") + noun
