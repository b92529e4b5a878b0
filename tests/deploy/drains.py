"""What BatonDrainTimeout has to wait for, and how long it may: seconds after SIGTERM.

A drain that ends as it should must not be told of, and one that does not end must be told of before the process is killed,
or nobody ever hears of it.
"""

import math

# As docs/monitoring.md asks for.
SCRAPE_S, EVALUATION_S = 15, 30
# What a process takes at most when its drain is over: the chart refuses less.
GOODBYE_S = 5


def problem(drain, lasting, killed):
    """A sentence, or None. `lasting` is the alert's `for`, `killed` the time from SIGTERM to SIGKILL."""
    seen = drain + GOODBYE_S + SCRAPE_S
    if lasting < seen:
        return f"for: {lasting} s, but a drain of {drain} s may be seen for {seen} s"
    fires = SCRAPE_S + EVALUATION_S + math.ceil(lasting / EVALUATION_S) * EVALUATION_S
    if killed < fires + SCRAPE_S:
        return f"for: {lasting} s, so it fires {fires} s after SIGTERM at the latest, and SIGKILL comes after {killed} s"
    return None


def seconds(text):
    """A time as Prometheus and compose write it, of one unit."""
    return int(text[:-1]) * {"s": 1, "m": 60, "h": 3600}[text[-1]]
