"""Alerts, and what the runbook says of each."""

from alerts import availability, doors, ends, objectives, workers

RUNBOOK = "docs/runbook.md"


def every():
    """All alerts, in the order of the runbook."""
    return [one for part in (availability, objectives, workers, ends, doors) for one in part.alerts()]


def group(known, scope):
    """The alerts as a group of rules; `known` is the table with what rules record, `scope` as Table.scoped has it."""
    return {"name": "baton-alerts", "rules": [
        {"alert": one.name, "expr": known.scoped(one.expression(), scope),
         **({"for": one.lasting} if one.lasting != "0m" else {}),
         "labels": {"severity": one.severity},
         "annotations": {"summary": one.summary, "description": one.description,
                         "runbook_url": f"{RUNBOOK}#{one.name.lower()}"}} for one in every()]}
