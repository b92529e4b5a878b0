"""The part that measures steps with weights of 4 and 8 bits, beside the same steps in bf16 of part `steps`."""

import report
import steps
from plan import Failure

KINDS = ("w4", "w8")
GROUP = 128


def names(sizes):
    """The lines of bench_kernels that count, as it prints them: few rows, many rows, whole steps."""
    lines = list(steps.step_names(sizes).values())
    return lines + [f"matmuls of all layers, M = {count}" for count in sizes.integer_rows]


def rows(sizes):
    return [report.Row(f"{kind}, {name}") for kind in KINDS for name in names(sizes)]


def measure(context, recorder):
    """Each kind once; that their products are right is checked by part `kernels`."""
    done, problems = [], []
    for at, kind in enumerate(KINDS):
        try:
            # One that hangs leaves time to the next.
            output = steps.bench_kernels(context, "matmuls,steps", "--weights", kind, "--group", str(GROUP),
                                         share=min(1.0, 1.2 / (len(KINDS) - at)))
        except Failure as error:
            problems.append(str(error))
            continue
        recorder.detail(f"numerics of {kind}", output.numerics)
        problems += steps.record_lines(output, names(context.sizes), f"{kind}, ", "", context.sizes, recorder)
        done.append(kind)
        recorder.why(f"{', '.join(done)} in groups of {GROUP}")
    if problems:
        raise Failure("; ".join(problems))
