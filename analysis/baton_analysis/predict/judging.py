"""The figures of one model over the rows of a frame, by group of answers."""

from typing import NamedTuple

import numpy as np

from baton_analysis.predict import arms, bins, figures
from baton_analysis.predict.evaluators import of_logits
from baton_analysis.predict.figures import Drawings, Figure
from baton_analysis.predict.frame import Frame

FALSE_ALARMS_MAX = 0.01  # per row of a family that does not end within the horizon
LEAD_HORIZON = 16
QUANTILES = (0.1, 0.5, 0.9)


class Announced(NamedTuple):
    """What a model said of each row of a frame."""

    within: np.ndarray  # [rows, bins.COUNT]
    expected: np.ndarray
    quantiles: dict[float, np.ndarray]

    def at(self, rows) -> "Announced":
        return Announced(self.within[rows], self.expected[rows], {
            q: values[rows] for q, values in self.quantiles.items()
        })

    def chance(self, horizon: int) -> np.ndarray:
        return self.within[:, bins.horizon_column(horizon)]


def announced(logits: np.ndarray, tail_mean: float) -> Announced:
    found = of_logits(logits, tail_mean)
    return Announced(found.within, found.expected_remaining,
                     {q: bins.quantile(found.within, tail_mean, q) for q in QUANTILES})


def alarm_thresholds(frame: Frame, said: Announced) -> dict[str, dict[int, float]]:
    """Per family and horizon the lowest chance that at most 1 % of the family's rows without an end
    so soon exceed; "all" is of all rows together, for families that are not in the frame.

    The rows of endless answers are left out: all of them are quiet, and so many that with them
    any alarm of the others would be rare.
    """
    families = np.array(frame.families)[frame.answer_of]
    groups = {name: families == name for name in sorted(set(families.tolist()) - {arms.RUNAWAY})}
    groups[arms.ALL] = families != arms.RUNAWAY
    return {name: _thresholds(frame, said, own) for name, own in groups.items()}


def _thresholds(frame, said, own) -> dict[int, float]:
    found = {}
    for horizon in bins.HORIZONS:
        known, happened = frame.ends.within(horizon)
        quiet = said.chance(horizon)[own & known & ~happened]
        found[horizon] = float(np.quantile(quiet, 1 - FALSE_ALARMS_MAX)) if len(quiet) else 1.0
    return found


def _of_rows(frame, rows, thresholds, horizon) -> np.ndarray:
    """The threshold of each row's family."""
    of_answer = [thresholds.get(family, thresholds[arms.ALL])[horizon] for family in frame.families]
    return np.array(of_answer)[frame.answer_of[rows]]


def judge(frame: Frame, rows: np.ndarray, said: Announced, base: Announced,
          thresholds: dict[str, dict[int, float]]) -> dict:
    """Of these rows of the frame. `base`: what M0 says of them; it is what skill is against."""
    prompts = frame.prompts[frame.answer_of[rows]]
    drawings = Drawings(prompts)
    ends = frame.ends[rows]
    said, base = said.at(rows), base.at(rows)
    found = {
        "answers": int(len(np.unique(frame.answer_of[rows]))),
        "prompts": drawings.count,
        "rows": len(rows),
        "horizons": {
            str(horizon):
                _horizon(drawings, ends, said.chance(horizon), base.chance(horizon), horizon,
                         _of_rows(frame, rows, thresholds, horizon)) for horizon in bins.HORIZONS
        },
        "remaining": _remaining(drawings, ends, said, base),
    }
    found["lead"] = _lead(frame, rows, said, thresholds)
    return found


def _horizon(drawings, ends, chances, base, horizon, thresholds) -> dict:
    known, happened = ends.within(horizon)
    rows = np.flatnonzero(known)
    p, m0, event = chances[rows], base[rows], happened[rows]
    if not len(rows):
        return {"rows": 0, "ends": 0}
    area, precision_area = figures.ranking(drawings, rows, p, event)
    error, error_m0 = (drawings.sums(rows, (q - event)**2) for q in (p, m0))
    alarm = p > thresholds[rows]
    return {
        "rows":
            len(rows),
        "ends":
            int(event.sum()),
        "auroc":
            area,
        "auprc":
            precision_area,
        "brier":
            figures.interval(error, drawings.sums(rows, np.ones(len(rows)))),
        "skill":
            figures.interval(error_m0 - error, error_m0),
        "ece":
            figures.calibration_error(drawings, rows, p, event),
        "accuracy":
            drawings.ratio(rows, ((p > 0.5) == event).astype(float)),
        "precision":
            drawings.ratio(rows, (alarm & event).astype(float), alarm.astype(float)),
        "recall":
            drawings.ratio(rows, (alarm & event).astype(float), event.astype(float)),
        "false_alarms":
            drawings.ratio(rows, (alarm & ~event).astype(float), (~event).astype(float)),
    }


def _remaining(drawings, ends, said, base) -> dict:
    """Of the tokens that are to come up to the limit, which are known of every answer that ended by
    itself or at it: natural ends alone would be the shorter ones. What was said is held to the
    limit, too."""
    rows = np.flatnonzero(ends.to_limit)
    if not len(rows):
        return {}
    ends = ends[rows]
    actual = np.minimum(ends.after, ends.room).astype(float)
    held = lambda announced: np.minimum(announced[rows], ends.room)
    error = np.abs(held(said.quantiles[0.5]) - actual)
    error_m0 = np.abs(held(base.quantiles[0.5]) - actual)
    sums, sums_m0 = drawings.sums(rows, error), drawings.sums(rows, error_m0)
    found = {
        "mae": figures.interval(sums, drawings.sums(rows, np.ones(len(rows)))),
        "median_ae": Figure(float(np.median(error))),
        "mae_against_m0": figures.interval(sums, sums_m0),
        "kendall_tau": figures.concurrent_tau(drawings, rows, held(said.expected), actual),
        "coverage_90": _coverage(drawings, rows, ends, said.quantiles[0.9][rows]),
    }
    for q in QUANTILES:
        gap = actual - held(said.quantiles[q])
        found[f"pinball_{q}"] = drawings.ratio(rows, np.maximum(q * gap, (q - 1) * gap))
    return found


def _coverage(drawings, rows, ends, quantile) -> Figure:
    """Where the limit lies below the quantile, nobody can tell whether the end would have."""
    known = ends.room >= quantile
    within = ends.natural & (ends.after <= quantile)
    return drawings.ratio(rows[known], within[known].astype(float))


def _lead(frame: Frame, rows, said, thresholds) -> dict:
    """Of answers that ended by themselves and all of whose rows are among these."""
    alarm = np.zeros(frame.rows, dtype=bool)
    alarm[rows] = said.chance(LEAD_HORIZON) > _of_rows(frame, rows, thresholds, LEAD_HORIZON)
    chosen = np.unique(frame.answer_of[rows])
    natural = [number for number in chosen.tolist() if frame.answers[number].natural]
    if not natural:
        return {}
    lead = figures.lead_times(frame.starts, alarm)[natural]
    return {
        "horizon": LEAD_HORIZON,
        "alarmed": float((lead > 0).mean()),
        "median": float(np.median(lead)),
        "mean": float(lead.mean())
    }
