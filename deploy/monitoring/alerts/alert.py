"""What an alert is: an expression with a threshold, and what the runbook says of it."""

import dataclasses

PERCENT = "{{ $value | humanizePercentage }}"
SECONDS = "{{ $value | humanizeDuration }}"
NUMBER = "{{ $value | humanize }}"
MODEL = "{{ $labels.model_name }}"


@dataclasses.dataclass
class Alert:
    """`left` is what is compared; operator and threshold are apart, so that whoever installs it can change the number.

    Further conditions stand behind in `also`. What stands there on a line of its own is the threshold once more; other
    numbers belong to the meaning of the alert.
    """

    name: str
    severity: str     # critical: somebody has to get up; warning: in working hours
    left: str
    operator: str
    threshold: str
    lasting: str      # "for": how long it has to hold; 0m: not at all
    unit: str         # of the threshold, for the runbook
    summary: str      # one line, with labels
    description: str  # what is seen now; $value is the left side
    means: str        # the runbook: what it means,
    look: str         # where to look first,
    do: str           # and what to do
    also: str = ""

    def expression(self):
        """The whole condition, with the threshold on a line of its own."""
        left = f"(\n{self.left}\n)" if "\n" in self.left or " or " in self.left else self.left
        condition = f"{left}\n{self.operator} {self.threshold}"
        return f"{condition}\n{self.also}" if self.also else condition
