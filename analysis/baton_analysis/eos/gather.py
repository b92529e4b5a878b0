"""One pass over the requests of a log: counts of everything, samples of what pictures need."""

import heapq
from collections import Counter
from typing import NamedTuple

import numpy as np

from baton_analysis.eos.features import NAMES, features, log_odds, repeated_grams, running, slopes
from baton_analysis.eos.labels import Labels
from baton_analysis.eos.log import HAZARD, PROB, STEP as STEPS, TOKEN, LogReader, Sequence
from baton_analysis.eos.samples import Reservoir, RowSample
from baton_analysis.eos.statistics import Ends, Reliability, equal_bins

ROWS_MAX = 300_000  # sampled, with all features: about 20 numbers of 4 bytes each
FIGURES_MAX = 5_000  # requests per family
CURVES_MAX = 48
CURVE_ROWS_MAX = 20_000  # longer answers are not among the typical ones
TAILS_MAX = 1_000
TAIL = 64
SENTENCES = 8  # ends of sentences before the end of an answer
SUSPECTS_MAX = 100
LOOP_ROWS, LOOP_SHARE = 64, 0.5

FAMILIES_MAX = 10
LABEL_MAX = 18
TEMPERATURES_MAX = 8  # per family; requests of more are in none of the comparisons
ALL, UNNAMED, OTHERS = "all requests", "no family", "other families"
# Keys of Gathered.families are (whether the name was given, name).
UNNAMED_KEY, OTHERS_KEY = (False, UNNAMED), (False, OTHERS)
# A family that is called like what this page calls something else stands in quotes.
OWN_NAMES = (ALL, UNNAMED, OTHERS, "all")

# Columns of the sample of rows behind the features.
REMAINING, CENSORED, FAMILY, STEP, ROOM = (len(NAMES) + column for column in range(5))


class Figures(NamedTuple):
    """A request without the row of its own end; `final` is that row (of a cut answer: its last)."""

    length: int
    natural: bool
    mean: float
    peak: float
    slope: float
    final: float


class Curve(NamedTuple):
    request_id: str
    natural: bool
    steps: np.ndarray
    odds: np.ndarray


class Suspect(NamedTuple):
    """An answer that did not come to an end."""

    length: int
    request_id: str
    reason: str
    repeats: float  # share of its last rows whose 4-gram was there before
    peak: float  # largest ln p of EOS


class Temperature:
    """Requests of one temperature: their ends, and how many the probabilities announced."""

    def __init__(self):
        self.ends = Ends()
        self.announced_raw = self.announced_sampling = 0.0
        self.stopped = 0


class Family:

    def __init__(self, name: str, number: int):
        self.name, self.number = name, number
        self.ends = Ends()
        self.figures = Reservoir(FIGURES_MAX, f"figures {name}")
        self.curves = Reservoir(CURVES_MAX, f"curves {name}")
        self.tails = Reservoir(TAILS_MAX, f"tails {name}")
        self.peaks = Reservoir(TAILS_MAX, f"peaks {name}")
        self.temperatures: dict[float | None, Temperature] = {}
        self.longest: list[Suspect] = []  # a heap
        self.looping: list[Suspect] = []  # likewise
        self.loops = 0
        self.unended = Counter()  # length -> answers that neither EOS nor a stop rule ended

    @property
    def label(self) -> str:
        return self.shortened(LABEL_MAX)

    def shortened(self, width: int) -> str:
        """The name as pictures have room for it, still told from others that begin alike."""
        end = f"… {self.number + 1}"
        return self.name if len(self.name) <= width else self.name[:width - len(end)] + end


class Gathered:

    def __init__(self):
        self.requests = self.rows = 0
        self.reasons = Counter()
        self.families: dict[tuple[bool, str], Family] = {}
        self.named = 0  # requests whose family is known
        self.sample = RowSample(ROWS_MAX)
        decades = np.concatenate(([0], 10.0**np.arange(-7, 0.1, 0.5)))
        # kind of probability -> (in equal bins, in bins of half a decade)
        self.reliability = {
            kind: (Reliability(equal_bins()), Reliability(decades))
            for kind in ("eos_prob", "eos_prob_sampling")
        }


def gather(reader: LogReader, labels: Labels, sentence_ends: np.ndarray | None = None) -> Gathered:
    """`sentence_ends`: by token id whether it ends a sentence or a line, where that is known."""
    gathered = Gathered()
    for sequence in reader.sequences():
        label = labels.of(sequence.request_id)
        gathered.requests += 1
        gathered.rows += len(sequence.rows)
        gathered.reasons[sequence.finish_reason] += 1
        gathered.named += bool(label.family)
        family = _family(gathered.families, label.family)
        family.ends.add(sequence.length, sequence.natural)
        _note_temperature(family, label.temperature, sequence)
        _note_reliability(gathered, sequence)
        ends = _ends_of(sequence, sentence_ends)
        _note_requests(family, sequence, ends)
        _note_suspect(family, sequence)
        _note_rows(gathered.sample, family, sequence, ends, label.max_tokens)
    return gathered


def _ends_of(sequence: Sequence, sentence_ends: np.ndarray | None) -> np.ndarray | None:
    tokens = sequence.rows[:, TOKEN]
    if sentence_ends is None or np.isnan(tokens).any():
        return None
    known = (tokens >= 0) & (tokens < len(sentence_ends))
    return known & sentence_ends[np.where(known, tokens, 0).astype(int)]


def _family(families: dict[tuple[bool, str], Family], name: str | None) -> Family:
    key = (True, name) if name else UNNAMED_KEY
    if key not in families:
        if len(families) >= FAMILIES_MAX:
            key = OTHERS_KEY
        given, name = key
        # JSON may hold halves of characters, which nothing can draw.
        name = name.encode("utf-8", "backslashreplace").decode("utf-8")
        shown = f"“{name}”" if given and name in OWN_NAMES else name
        families.setdefault(key, Family(shown, len(families)))
    return families[key]


def _note_temperature(family, temperature, sequence: Sequence):
    if temperature not in family.temperatures and len(family.temperatures) >= TEMPERATURES_MAX:
        temperature = None
    at = family.temperatures.setdefault(temperature, Temperature())
    at.ends.add(sequence.length, sequence.natural)
    at.stopped += sequence.stopped
    at.announced_raw += float(np.nansum(sequence.rows[:, PROB]))
    at.announced_sampling += float(np.nansum(sequence.rows[:, HAZARD]))


def _note_reliability(gathered, sequence: Sequence):
    """Whether a step ended the answer is known of every row, also where the answer was cut."""
    happened = np.zeros(len(sequence.rows))
    kinds = (("eos_prob", PROB, sequence.natural), ("eos_prob_sampling", HAZARD, sequence.stopped))
    for kind, column, ended in kinds:
        happened[-1] = ended
        for reliability in gathered.reliability[kind]:
            reliability.add(sequence.rows[:, column], happened)


def _note_requests(family: Family, sequence: Sequence, ends: np.ndarray | None):
    logprob = sequence.logprob
    if np.isnan(logprob).all():
        return
    family.figures.offer(lambda: _figures(sequence))
    if len(logprob) <= CURVE_ROWS_MAX:
        steps = sequence.rows[:, STEPS]
        family.curves.offer(lambda: Curve(sequence.name, sequence.natural, steps.copy(),
                                          log_odds(logprob)))
    if sequence.natural and len(logprob) > 1:
        family.tails.offer(lambda: _tail(logprob))
        if ends is not None:
            family.peaks.offer(lambda: _peaks(logprob, ends))


def _figures(sequence: Sequence) -> Figures:
    before = sequence.logprob[:-1] if sequence.natural else sequence.logprob
    if not len(before):
        before = np.array([np.nan])
    mean, peak, _ = (values[-1] for values in running(before))
    return Figures(sequence.length, sequence.natural, mean, peak,
                   slopes(before[None, :])[0], sequence.logprob[-1])


def _tail(logprob):
    tail = np.full(TAIL, np.nan, dtype=np.float32)
    last = log_odds(logprob[-TAIL:])
    tail[TAIL - len(last):] = last
    return tail


def _peaks(logprob, ends):
    """Log-odds of EOS: the middle of the rows inside of sentences, then the rows behind the last
    SENTENCES sentence ends, then the row of the end; NaN where there is none. [SENTENCES + 2]"""
    behind = np.concatenate(([False], ends[:-1]))
    behind[-1] = False
    last = log_odds(logprob[behind])[-SENTENCES:]
    inside = log_odds(logprob[:-1][~behind[:-1]])
    peaks = np.full(SENTENCES + 2, np.nan, dtype=np.float32)
    if not np.isnan(inside).all():
        peaks[0] = np.nanmedian(inside)
    peaks[1 + SENTENCES - len(last):-1] = last
    peaks[-1] = log_odds(logprob[-1:])[0]
    return peaks


def _note_suspect(family: Family, sequence: Sequence):
    if sequence.natural or sequence.finish_reason.startswith("stop"):
        return
    family.unended[sequence.length] += 1
    repeats = float("nan")
    if len(sequence.rows) >= LOOP_ROWS:
        last = repeated_grams(sequence.rows[:, TOKEN])[-LOOP_ROWS:]
        # The first rows of an answer end no 4-gram; a log without tokens has none at all.
        if not np.isnan(last).all():
            repeats = float(np.nanmean(last))
    known = sequence.logprob[~np.isnan(sequence.logprob)]
    suspect = Suspect(sequence.length, sequence.name, sequence.finish_reason, repeats,
                      float(known.max()) if len(known) else float("nan"))
    _push(family.longest, suspect)
    if repeats >= LOOP_SHARE:
        family.loops += 1
        _push(family.looping, suspect)


def _push(heap, suspect):
    if len(heap) < SUSPECTS_MAX:
        heapq.heappush(heap, suspect)
    else:
        heapq.heappushpop(heap, suspect)


def _note_rows(sample: RowSample, family: Family, sequence: Sequence, ends: np.ndarray | None,
               max_tokens: int | None):
    """The last row is left out: what the row of step t announces is token t itself, so with the row
    of the end EOS would look as if it foretold itself."""
    at, keys = sample.choose(len(sequence.rows) - 1)
    if not len(at):
        return
    known = np.column_stack([
        sequence.length - sequence.rows[at, STEPS],
        np.full(len(at), not sequence.natural),
        np.full(len(at), family.number),
        sequence.rows[at, STEPS],
        (np.inf if max_tokens is None else max_tokens) - sequence.rows[at, STEPS],
    ])
    sample.add(keys, np.hstack([features(sequence, at, ends), known]))
