"""The sections of the study's page, as Markdown."""

from baton_analysis.markdown import table as markdown
from baton_analysis.predict import aims, arms, kinds
from baton_analysis.predict.bins import HORIZONS
from baton_analysis.predict.pictures import PICTURES
from baton_analysis.predict.tables import BEYOND, cell, families_of, lead

# What has a table of its own; families of a few answers are only in the pooled ones.
FAMILIES = (*arms.UNCERTAIN, arms.BOTH, arms.DETERMINED, arms.ALL)
OTHER_ARM_FAMILIES = (*arms.UNCERTAIN, arms.ALL)
OTHER_ARM_KINDS = ("survival", "boosted", "gru", "combination")


def sections(found: dict, folder: str) -> dict[str, str]:
    main = found["data"]["main_arm"]
    parts = {"data": data_table(found), "aims": aims_table(found)}
    parts["pictures"] = "\n\n".join(f"![{title}]({folder}/{name}.svg)" for name, title in PICTURES)
    parts["families"] = "\n\n".join(
        family_table(found, main, family)
        for family in families_of(found, main)
        if family in FAMILIES or _is_held_out_family(family))
    parts["ceiling"] = ceiling_table(found)
    parts["arms"] = other_arms(found)
    return parts


def data_table(found: dict) -> str:
    data = found["data"]
    rows = [[family, f"{noise['answers']:,}", f"{noise['mae']:.1f}", f"{noise['mae_median']:.1f}"]
            for family, noise in data["same_prompt"].items() if noise]  # yapf: disable
    return (
        f"{data['train_answers']:,} answers with {data['train_rows']:,} rows in the training split, "
        f"{data['test_answers']:,} with {data['test_rows']:,} in the test split, all arms together; "
        f"model {data['model_fingerprint'][:16]}.{_trained_on(data)}\n\n"
        "How far the length of an answer is from the median of the other seeds of its prompt, and "
        f"from the median of its family ({data['main_arm']}, test split):\n\n" +
        markdown(["family", "answers", "other seeds", "family"], rows))


def _trained_on(data: dict) -> str:
    made_of = data["trained_on"]
    return (f" Each model was trained on {made_of['train_rows']:,} rows of "
            f"{made_of['train_answers']:,} answers of the training split.")


def aims_table(found: dict) -> str:
    names = list(found["models"])[2:]
    rows = []
    for place, aim in enumerate(aims.AIMS):
        entries = [found["models"][name]["aims"][place] for name in names]
        rows.append([aim.text] + [_aim_cell(entry) for entry in entries])
    hits = ["aims reached"] + [
        f"{sum(entry['verdict'] == aims.HIT for entry in found['models'][name]['aims'])} of "
        f"{len(aims.AIMS)}" for name in names
    ]
    return markdown(["aim", *names], [*rows, hits])


def _aim_cell(entry: dict) -> str:
    figure = entry["figure"]
    if not figure or figure["value"] is None:
        return "–"
    mark = {aims.HIT: "**", aims.OPEN: "", aims.MISS: ""}[entry["verdict"]]
    note = {aims.HIT: "", aims.OPEN: " (open)", aims.MISS: " (missed)"}[entry["verdict"]]
    interval = "" if figure["low"] is None else f" [{figure['low']:.3f}, {figure['high']:.3f}]"
    return f"{mark}{figure['value']:.3f}{mark}{interval}{note}"


def family_table(found: dict, arm: str, family: str) -> str:
    models = found["models"]
    one = next(iter(models.values()))["arms"][arm][family]
    marks = [BEYOND if horizon > one["mean_length"] / 2 else "" for horizon in HORIZONS]
    head = ["model", *(f"AUROC k={k}{mark}" for k, mark in zip(HORIZONS, marks)), "AUPRC 4", "Brier 4",
            "skill 4", "ECE 4", "precision 4", "recall 4", "false alarms 4", "accuracy 4", "lead", "MAE", "MAE / M0",
            "pinball .1 / .5 / .9", "coverage .9", "tau"]  # yapf: disable
    rows = []
    for name, model in models.items():
        judged = model["arms"][arm][family]
        at, remaining = judged["horizons"], judged["remaining"]
        rows.append([name, *(cell(at[str(k)].get("auroc")) for k in HORIZONS)] + [
            cell(at["4"].get(key)) for key in ("auprc", "brier", "skill", "ece", "precision", "recall",
                                               "false_alarms", "accuracy")] + [
            lead(judged["lead"]), cell(remaining.get("mae")), cell(remaining.get("mae_against_m0")),
            " / ".join(cell(remaining.get(f"pinball_{q}")) for q in (0.1, 0.5, 0.9)),
            cell(remaining.get("coverage_90")), cell(remaining.get("kendall_tau"))])  # yapf: disable
    return (
        f"### {family[0].upper()}{family[1:]}: {one['answers']:,} answers to {one['prompts']:,} "
        f"prompts, {one['mean_length']:.1f} tokens on average\n\n" + markdown(head, rows))


def ceiling_table(found: dict) -> str:
    rows = []
    for name, model in found["models"].items():
        for family, horizons in model["ceiling"].items():
            if family not in FAMILIES:
                continue
            cells = [
                cell(at["auroc"]) + " / " + cell(at["auroc_ceiling"]) for at in horizons.values()
            ]
            rows.append([family, name, *cells, cell(horizons["4"]["skill_of_ceiling"], True)])
    if not rows:
        return "The data set has no ceiling."
    rows.sort(key=lambda row: FAMILIES.index(row[0]))
    horizons = next(iter(next(iter(found["models"].values()))["ceiling"].values()))
    return markdown(["family", "model", *(f"AUROC k={k}: model / ceiling" for k in horizons),
                     "share of the skill at 4"], rows)  # yapf: disable


def other_arms(found: dict) -> str:
    """What shifts of sampling do: ranking and calibration at 4, and the remaining tokens."""
    models, main = found["models"], found["data"]["main_arm"]
    titles = {kinds.KINDS[kind].title for kind in OTHER_ARM_KINDS}
    others = sorted({arm for model in models.values() for arm in model["arms"]} - {main})
    rows = []
    for arm in [main, *others]:
        for family in families_of(found, arm):
            if family not in OTHER_ARM_FAMILIES and not _is_held_out_family(family):
                continue
            for name in titles.intersection(models):
                judged = models[name]["arms"][arm][family]
                at = judged["horizons"]["4"]
                rows.append([
                    arm, family, name, f"{judged['answers']:,}",
                    cell(at.get("auroc")),
                    cell(at.get("skill")),
                    cell(at.get("ece")),
                    cell(judged["remaining"].get("mae_against_m0"))
                ])
    order = list(models)
    rows.sort(key=lambda row: (row[0] != main, row[0], row[1], order.index(row[2])))
    return markdown(
        ["arm", "family", "model", "answers", "AUROC 4", "skill 4", "ECE 4", "MAE / M0"], rows)


def _is_held_out_family(family: str) -> bool:
    return "(held out)" in family and family != f"{arms.ALL} (held out)"
