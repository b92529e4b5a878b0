"""What strikes when: a function of the seed alone, so that a run can be seen again."""

import dataclasses
import math
import random

# How often each kind of blow falls, relative to the others.
WEIGHTS = {
    "kill": 14,       # SIGKILL, and a new process after a while
    "stop": 18,       # SIGSTOP, and SIGCONT after a while
    "drain": 8,       # SIGTERM, its exit code, and a new process
    "cut": 12,        # closes all established connections to a process
    "cut_one": 24,    # closes one of them
    "disk_full": 3,   # the file system of the EOS logs has no room for a while
    "dns_gone": 4,    # the name of a role lacks a worker for a while
    "dns_dead": 1,    # the name of a role does not resolve for a while
    "dns_ghost": 2,   # the name of a role has an address where nobody listens, for a while
    "dns_move": 4,    # a worker dies and comes back at another address
}
NEEDS = {"cut": "sockets", "cut_one": "sockets", "disk_full": "disk", "dns_gone": "dns",
         "dns_dead": "dns", "dns_ghost": "dns", "dns_move": "dns"}
DEADLY = ("kill", "drain", "dns_move")
# Shortest and longest time until it heals, in seconds, of which the logarithm is drawn evenly.
LENGTHS = {"kill": (0.01, 2), "drain": (0.01, 1), "dns_move": (0.01, 2), "stop": (0.1, 8),
           "disk_full": (0.1, 4), "dns_gone": (1, 12), "dns_dead": (1, 12), "dns_ghost": (1, 12)}
BURST_SHARE = 0.15  # of the moments, at which several blows fall at once


@dataclasses.dataclass(frozen=True)
class Blow:
    """One blow."""

    at: float        # seconds from the beginning of its round
    kind: str
    target: str      # the name of a slot
    seconds: float   # until it heals
    pick: float      # chooses among what is only known when it strikes: [0, 1)


def kinds(abilities, wanted=()):
    """The kinds that can strike here, in a fixed order; only those `wanted` if any is named."""
    return [kind for kind in WEIGHTS
            if NEEDS.get(kind) in (None, *abilities) and (not wanted or kind in wanted)]


def spared(seed, number, names, rounds):
    """One slot of each role that nothing kills for `rounds` rounds, to watch its memory."""
    rng = random.Random(f"spared {seed} {number // rounds}")
    by_role = {}
    for name in names:
        by_role.setdefault(name.rpartition("-")[0], []).append(name)
    return {rng.choice(slots) for slots in by_role.values()}


def targets(kind, names, safe):
    if kind in DEADLY:
        names = [name for name in names if name not in safe]
    if kind.startswith("dns"):
        names = [name for name in names if not name.startswith("router")]
    return names


def plan(seed, number, names, which, rate, seconds, safe):
    """The blows of round `number`: `rate` a second on slots `names`, of the kinds `which`."""
    rng = random.Random(f"round {seed} {number}")
    weights = [WEIGHTS[kind] for kind in which]
    moments_a_second = rate / (1 + BURST_SHARE * 2)  # a burst has three blows on average
    blows, at = [], 0.0
    while True:
        at += rng.expovariate(moments_a_second)
        count = rng.randint(2, 4) if rng.random() < BURST_SHARE else 1
        if at >= seconds:
            return blows
        for kind in rng.choices(which, weights, k=count):
            low, high = map(math.log, LENGTHS.get(kind, (1, 1)))
            could = targets(kind, names, safe)
            # Drawn in any case, so that one blow without a target does not change the rest.
            draws = rng.random(), math.exp(rng.uniform(low, high)), rng.random()
            if could:
                blows.append(Blow(at, kind, could[int(draws[0] * len(could))], *draws[1:]))
