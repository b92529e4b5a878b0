"""The part about weights of FP8: checkpoints of e4m3, whose codes a GPU multiplies as they are, and
steps with weights that are rounded while they are loaded, beside those in bf16 of part `steps`.
"""

import functools
import json
import re
import shutil
import struct

import report
import steps
import throughput
import transports
from plan import Failure, NotMeasured, Skip

CAPABILITY = "9"  # before the point; others have no products of e4m3 with a scale for each row
# Whether inputs are divided by a number of the checkpoint, and not by one of each row's own.
CHECKPOINTS = {"scales of each row": False, "static input scales": True}
# The largest input of a product of the demo model is 712, which must not be cut off at 448 scales.
INPUT_SCALE = 2.0
# The least share of tokens before the first difference of each answer. Products of another number
# of rows may differ in last bits, and one of those may choose between codes that are a sixteenth
# apart, so near-ties have no narrow bound here. An emulation of the demo model with such changes
# kept 53 to 92 % of its tokens and 55 to 66 % of those in bf16; with inputs cut off at 22, 17 %.
LEAST_AGREEMENT = 0.3
PACKED = re.compile(r"weights (\d+) MiB packed, numerics ([^\s,]+)")
CODES = "F8_E4M3"


def names(sizes):
    """The lines of bench_kernels that count, as it prints them: those of part `steps`."""
    return [*steps.step_names(sizes).values(),
            *(f"matmuls of all layers, M = {count}" for count in sizes.product_rows)]


def rows(sizes):
    return [report.Row(f"fp8, {name}") for name in names(sizes)]


def need_products(context):
    if context.device != "cuda":
        raise Skip("products of e4m3 are those of GPUs; there are none on --device cpu")
    found = context.gpu.get("compute_cap", "unknown")
    if found.partition(".")[0] != CAPABILITY:
        raise Skip(f"products of e4m3 need compute capability {CAPABILITY}.x (Hopper); "
                   f"{context.gpu.get('name', 'this GPU')} has {found}")


# --- checkpoints ---

def read_header(path):
    """(entries by tensor, the bytes behind them) of a safetensors file."""
    data = path.read_bytes()
    size, = struct.unpack("<Q", data[:8])
    return json.loads(data[8:8 + size]), data[8 + size:]


def add_input_scales(folder, scale):
    """Gives a checkpoint whose inputs find their own scales a fixed one for all of them."""
    path = folder / "model.safetensors"
    header, data = read_header(path)
    for name in [name for name, entry in header.items() if entry.get("dtype") == CODES]:
        header[name.removesuffix(".weight") + ".input_scale"] = {
            "dtype": "F32", "shape": [1], "data_offsets": [len(data), len(data) + 4]}
        data += struct.pack("<f", scale)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    config = json.loads((folder / "config.json").read_text())
    for group in config["quantization_config"]["config_groups"].values():
        group["input_activations"].update(strategy="tensor", dynamic=False)
    (folder / "config.json").write_text(json.dumps(config))


def make_checkpoint(context, static):
    """The demo model in e4m3, with a scale for each row."""
    cluster = transports.load_cluster(context)
    folder = context.work / ("fp8-static" if static else "fp8")
    shutil.rmtree(folder, ignore_errors=True)
    throughput.run_checked([context.build.bin / "baton", "model", "quantize", cluster.DEMO_MODEL,
                            folder, "--scheme", "fp8"], context)
    if static:
        add_input_scales(folder, INPUT_SCALE)
    return folder


def serve(context, model):
    """Answers of one unified worker to each request alone, to each alone again, and to all side by
    side; and its log."""
    with transports.make_service(context, "bfloat16", prefill=0, model=model) as service:
        found = [service.generate(transports.requests(False, name), "--chat", concurrency=width)
                 for name, width in (("alone", 1), ("again", 1), ("beside", transports.COUNT))]
        service.assert_nothing_held()
        return (*found, service.decode[0].log.read_text(errors="replace"))


def check_codes(model, log):
    """The numerics that the worker names; fails unless it kept the codes, which take half of what
    floats would."""
    said = PACKED.search(log)
    if said is None:
        raise Failure("the log does not say how much memory the packed weights take")
    header, data = read_header(model / "model.safetensors")
    codes = sum(end - begin for begin, end in
                (entry["data_offsets"] for entry in header.values() if entry.get("dtype") == CODES))
    if int(said[1]) * 2**20 > len(data) + codes / 2:
        raise Failure(f"packed weights take {said[1]} MiB; expected the {len(data) / 2**20:.1f} "
                      f"MiB of the checkpoint: its codes became floats ({said[2]})")
    return said[2]


def agreement(answers, expected):
    """The share of tokens that come before the first difference of each answer."""
    same = total = 0
    for answer, right in zip(answers, expected, strict=True):
        pairs = list(zip(answer["token_ids"], right["token_ids"]))
        same += next((at for at, (have, want) in enumerate(pairs) if have != want), len(pairs))
        total += len(right["token_ids"])
    return same / total


def check(context, static):
    """Serves one checkpoint; the line of what was found."""
    model = make_checkpoint(context, static)
    alone, again, beside, log = serve(context, model)
    numerics = check_codes(model, log) if context.device == "cuda" else "floats"
    wrong, _ = transports.compare(again, alone, allow_ties=False)
    if wrong:
        raise Failure(f"{len(wrong)} of {len(again)} answers differ when asked again: "
                      + "; ".join(wrong[:2]))
    shares = {"side by side": agreement(beside, alone),
              "in bf16": agreement(alone, transports.reference(context, "bfloat16", False))}
    told = ", ".join(f"{100 * share:.0f} % {name}" for name, share in shares.items())
    line = f"{len(alone)} answers equal when asked again, of their tokens {told} ({numerics})"
    if min(shares.values()) < LEAST_AGREEMENT:
        raise Failure(f"{line}; expected at least {100 * LEAST_AGREEMENT:.0f} %")
    return line


# --- steps ---

def bench(context, recorder):
    """Steps and products once; that their products are right is checked by part `kernels`."""
    try:
        output = steps.bench_kernels(context, "matmuls,steps", "--quantization", "fp8")
    except NotMeasured as error:  # which would hide what came of the checkpoints
        raise Failure(str(error)) from error
    recorder.detail("numerics", output.numerics)
    problems = steps.record_lines(output, names(context.sizes), "fp8, ", "", context.sizes,
                                  recorder)
    if problems:
        raise Failure("; ".join(problems))
    return "measured"


def measure(context, recorder):
    """Both kinds of checkpoints, and then the steps: what fails costs the others nothing."""
    need_products(context)
    cluster = transports.load_cluster(context)
    checks = [(name, functools.partial(check, context, static))
              for name, static in CHECKPOINTS.items()]
    checks.append(("steps", functools.partial(bench, context, recorder)))
    lines = []
    for name, line in transports.each(context, cluster, checks):
        lines.append(f"{name}: {line}")
        recorder.why("; ".join(lines))
