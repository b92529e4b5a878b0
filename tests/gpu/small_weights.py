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
    for kind in KINDS:
        output = steps.bench_kernels(context, "matmuls,steps", "--weights", kind, "--group", str(GROUP))
        recorder.detail(f"numerics of {kind}", output.numerics)
        for name in names(context.sizes):
            line = output.lines.get(name)
            if line is None:
                raise Failure(f"bench_kernels --weights {kind} printed no line '{name}'")
            text = f"{line['ms']:.3f} ms, {line['rate']:.0f} {line['unit']}"
            recorder.row(f"{kind}, {name}", baton=text + steps.per_second(name, context.sizes, line["ms"]),
                         percent=line["percent"], data={"of": line["of"]})
        recorder.why(f"{', '.join(KINDS[:KINDS.index(kind) + 1])} in groups of {GROUP}")
