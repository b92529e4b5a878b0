"""docs/runbook.md, from the alerts."""

from alerts import every
from rules import SLOS

HEAD = """# Runbook

What to do when an alert fires. `deploy/monitoring/make` writes this page together with the rules in
`deploy/prometheus/rules`; [monitoring.md](monitoring.md) says how they are installed and changed. Critical alerts want
somebody now, warnings in working hours. Boards are those of Grafana: Overview, Disaggregation, Workers, KV cache, EOS
and prediction.

| alert | severity | fires when | for |
|---|---|---|---|
"""


def _line(one):
    return (f"| [{one.name}](#{one.name.lower()}) | {one.severity} | {one.operator} {one.threshold} {one.unit} | "
            f"{'at once' if one.lasting == '0m' else one.lasting} |")


def _paragraph(one):
    return (f"## {one.name}\n\n{one.means}\n\n**Look:** {one.look}\n\n**Do:** {one.do}\n")


def page():
    budgets = "\n".join(f"- `{slo}`: {float(budget):.0%} — {what}" for slo, budget, what in SLOS)
    return (HEAD + "\n".join(map(_line, every())) + "\n\nBudgets of the objectives, by label `slo`:\n\n" + budgets + "\n\n"
            + "\n".join(map(_paragraph, every())))
