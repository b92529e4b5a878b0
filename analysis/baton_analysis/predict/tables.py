"""The figures of `evaluate` as tables of text."""

from baton_analysis.predict import aims
from baton_analysis.predict.bins import HORIZONS

BEYOND = "·"  # of a horizon above half of the mean length: no aim
HORIZON_COLUMNS = (("auroc", "AUROC"), ("auprc", "AUPRC"), ("brier", "Brier"), ("skill", "skill"),
                   ("ece", "ECE"), ("accuracy", "accuracy"), ("precision", "precision"),
                   ("recall", "recall"), ("false_alarms", "false alarms"))
REMAINING_COLUMNS = (("mae", "MAE"), ("median_ae", "median AE"), ("mae_against_m0", "MAE / M0"),
                     ("pinball_0.1", "pinball .1"), ("pinball_0.5", "pinball .5"),
                     ("pinball_0.9", "pinball .9"), ("coverage_90", "coverage .9"), ("kendall_tau",
                                                                                     "Kendall tau"))


def text(found: dict) -> str:
    parts = [heading(found["data"])]
    arms = sorted({arm for model in found["models"].values() for arm in model["arms"]},
                  key=lambda arm: (arm != found["data"]["main_arm"], arm))
    for arm in arms:
        parts += arm_tables(found, arm)
    parts.append(ceiling_table(found))
    parts.append(aims_table(found))
    return "\n\n".join(part for part in parts if part)


def heading(data: dict) -> str:
    cut = data["test_cut_otherwise"]
    return (
        f"{data['folder']}: {data['test_rows']:,} rows of {data['test_answers']:,} test answers; "
        f"trained on up to {data['train_rows']:,} rows of {data['train_answers']:,}.\n" +
        (f"{cut:,} test answers ended neither by themselves nor at their limit; the figures are "
         "worth less for each of them.\n" if cut else "") +
        f"Intervals of 95 % over prompts. {BEYOND}: the horizon is above half of the family's "
        "mean length. skill: 1 - Brier / Brier of M0.")


def families_of(found: dict, arm: str) -> list[str]:
    return list(next(iter(found["models"].values()))["arms"].get(arm, {}))


def arm_tables(found: dict, arm: str) -> list[str]:
    parts = []
    for family in families_of(found, arm):
        judged = {name: model["arms"][arm][family] for name, model in found["models"].items()}
        one = next(iter(judged.values()))
        parts.append(f"## {arm}: {family} ({one['answers']:,} answers, mean length "
                     f"{one['mean_length']:.1f})\n\n" + family_tables(judged, one))
    return parts


def family_tables(judged: dict, one: dict) -> str:
    rows = []
    for name, model in judged.items():
        for horizon in HORIZONS:
            at = model["horizons"][str(horizon)]
            if at.get("auroc") is None or at["auroc"]["value"] is None:
                continue
            mark = BEYOND if horizon > one["mean_length"] / 2 else ""
            rows.append([name, f"{horizon}{mark}", f"{at['ends']:,}"] +
                        [cell(at[key], key == "auroc") for key, _ in HORIZON_COLUMNS])
    tables = [table(["model", "k", "ends", *(title for _, title in HORIZON_COLUMNS)], rows)]
    rows = [[name] + [cell(model["remaining"].get(key), key in ("mae_against_m0", "kendall_tau"))
                      for key, _ in REMAINING_COLUMNS] + [lead(model["lead"])]
            for name, model in judged.items() if model["remaining"]]  # yapf: disable
    if rows:
        head = ["model", *(title for _, title in REMAINING_COLUMNS), "lead of 16: median, mean"]
        tables.append(table(head, rows))
    return "\n\n".join(tables)


def ceiling_table(found: dict) -> str:
    rows = []
    for name, model in found["models"].items():
        for family, horizons in model["ceiling"].items():
            for horizon, at in horizons.items():
                rows.append([
                    family, horizon, name, f"{at['prefixes']:,}",
                    cell(at["auroc"]),
                    cell(at["auroc_ceiling"]),
                    cell(at["skill_of_ceiling"], True)
                ])
    if not rows:
        return ""
    rows.sort(key=lambda row: (row[0], int(row[1])))
    head = ["family", "k", "model", "prefixes", "AUROC", "AUROC of the ceiling",
            "share of the skill from M0 to the ceiling"]  # yapf: disable
    return "## Against the ceiling\n\n" + table(head, rows)


def aims_table(found: dict) -> str:
    """Of all models but the baselines."""
    names = list(found["models"])[2:]
    rows = []
    for place, aim in enumerate(aims.AIMS):
        entries = [found["models"][name]["aims"][place] for name in names]
        rows.append([aim.text] +
                    [f"{cell(entry['figure'], True)} {entry['verdict']}" for entry in entries])
    return "## Aims\n\n" + table(["aim", *names], rows) if names else ""


def lead(found: dict) -> str:
    return f"{found['median']:.0f}, {found['mean']:.1f}" if found else "–"


def cell(figure: dict | None, with_interval: bool = False) -> str:
    if not figure or figure["value"] is None:
        return "–"
    value = figure["value"]
    digits = 1 if abs(value) >= 10 else 3
    if not with_interval or figure["low"] is None:
        return f"{value:.{digits}f}"
    return f"{value:.{digits}f} [{figure['low']:.{digits}f}, {figure['high']:.{digits}f}]"


def table(head: list[str], rows: list[list[str]]) -> str:
    """As Markdown, in columns for the eye."""
    widths = [max(len(row[place]) for row in [head, *rows]) for place in range(len(head))]
    line = lambda cells: "| " + " | ".join(text.ljust(width)
                                           for text, width in zip(cells, widths)) + " |"
    return "\n".join([line(head), "|" + "|".join("-" * (width + 2) for width in widths) + "|",
                      *map(line, rows)])  # yapf: disable
