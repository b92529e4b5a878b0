"""The aims of the study, and whether a model reaches them. A figure that misses by less than its
interval is told as open."""

from typing import NamedTuple

from baton_analysis.predict.arms import BOTH


class Aim(NamedTuple):
    family: str
    figure: str  # of a horizon, or of the remaining tokens
    horizon: int | None
    bound: float
    at_least: bool

    @property
    def text(self) -> str:
        what = self.figure.replace("_", " ")
        where = f" of P(end ≤ {self.horizon})" if self.horizon else ""
        return f"{self.family}: {what}{where} {'≥' if self.at_least else '≤'} {self.bound:g}"


AIMS = (
    Aim("story", "auroc", 4, 0.98, True),
    Aim("story", "auroc", 16, 0.96, True),
    Aim("story", "ece", 4, 0.02, False),
    Aim("story", "ece", 16, 0.02, False),
    Aim("story", "mae_against_m0", None, 0.92, False),
    Aim("answer", "auroc", 1, 0.95, True),
    Aim("answer", "auroc", 4, 0.77, True),
    Aim("answer", "ece", 1, 0.04, False),
    Aim("answer", "ece", 4, 0.04, False),
    Aim("answer", "skill", 4, 0.08, True),
    Aim(BOTH, "kendall_tau", None, 0.58, True),
    Aim("story", "skill_of_ceiling", 4, 0.8, True),
    Aim("answer", "skill_of_ceiling", 4, 0.3, True),
)
HIT, OPEN, MISS, UNKNOWN = "hit", "within the interval", "miss", "not measured"


def figure_of(groups: dict, ceiling: dict, aim: Aim) -> dict | None:
    """`groups`: a model's figures by family; `ceiling`: those on the prefixes of the ceiling."""
    if aim.figure == "skill_of_ceiling":
        return ceiling.get(aim.family, {}).get(str(aim.horizon))
    judged = groups.get(aim.family)
    if not judged:
        return None
    if aim.horizon is None:
        return judged["remaining"].get(aim.figure)
    return judged["horizons"][str(aim.horizon)].get(aim.figure)


def verdict(aim: Aim, figure: dict | None) -> str:
    if not figure or figure["value"] is None:
        return UNKNOWN
    reaches = lambda value: value >= aim.bound if aim.at_least else value <= aim.bound
    if reaches(figure["value"]):
        return HIT
    best = figure["high"] if aim.at_least else figure["low"]
    return OPEN if best is not None and reaches(best) else MISS
