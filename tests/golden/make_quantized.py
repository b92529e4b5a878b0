"""Writes projections in every quantized form that loads, with the numbers that they stand for.

Usage: make_quantized.py --out tests/golden/quantized      (needs Python alone)

The encoders below follow the packages that define the forms (compressed-tensors, GPTQModel,
AutoAWQ). Run make_values.py next: it replaces the values by what these packages read, and says
where that is another number than was meant here. Integers, scales and zero points are drawn at
random, so every code occurs. Scales are fp16 or bf16 numbers: their products with integers are
exact in fp32.
"""

import argparse
import json
import pathlib
import random
import struct

OUT, IN = 8, 64


def bf16_bits(x):
    return struct.unpack("<I", struct.pack("<f", x))[0] >> 16


def f16_bits(x):
    return struct.unpack("<H", struct.pack("<e", x))[0]


def tensor(dtype, shape, numbers):
    """A tensor as a safetensors file has it; numbers are integers, or fp numbers for F16 and BF16."""
    form = {"I8": "b", "I32": "I", "I64": "q", "F16": "H", "BF16": "H", "F32": "f"}[dtype]
    bits = {"F16": f16_bits, "BF16": bf16_bits}.get(dtype, lambda x: x & 0xFFFFFFFF if dtype == "I32" else x)
    return {"dtype": dtype, "shape": shape, "data": struct.pack(f"<{len(numbers)}{form}", *map(bits, numbers)).hex()}


def words(numbers, bits):
    """Unsigned numbers packed into words of 32 bits, the first in the lowest ones."""
    per = 32 // bits
    out = []
    for i in range(0, len(numbers), per):
        out.append(sum(n << (bits * j) for j, n in enumerate(numbers[i : i + per])))
    return out


def flat(rows):
    return [x for row in rows for x in row]


def transpose(rows):
    return [list(column) for column in zip(*rows)]


class Weight:
    """Random integers [OUT][IN] without a sign, zero points [OUT][groups] likewise, and scales."""

    def __init__(self, name, bits, group, zeros, act_order=False, scale_bits=11):
        rng = random.Random(name)
        self.bits, self.group = bits, group or IN
        groups = IN // self.group
        self.codes = [[rng.randrange(1 << bits) for _ in range(IN)] for _ in range(OUT)]
        middle = 1 << (bits - 1)
        self.zeros = [[rng.randrange(1 << bits) if zeros else middle for _ in range(groups)] for _ in range(OUT)]
        most = 1 << scale_bits
        self.scales = [[rng.randrange(most // 2, most) / most / 64 for _ in range(groups)] for _ in range(OUT)]
        self.group_of = [k // self.group for k in range(IN)]
        if act_order:
            rng.shuffle(self.group_of)

    def values(self):
        return [[(c - self.zeros[r][g]) * self.scales[r][g] for c, g in zip(self.codes[r], self.group_of)]
                for r in range(OUT)]


def pack_quantized(name, bits, group, symmetric=True, actorder=None):
    """compressed-tensors: rows are packed; zero points are packed down their columns. Numbers with a sign are stored
    plus half of their range, which for both is the number without a sign here."""
    w = Weight(name, bits, group, not symmetric, actorder == "group", scale_bits=8)
    parts = {
        "weight_packed": tensor("I32", [OUT, IN * bits // 32], flat(words(row, bits) for row in w.codes)),
        "weight_scale": tensor("BF16", [OUT, len(w.scales[0])], flat(w.scales)),
        "weight_shape": tensor("I64", [2], [OUT, IN]),
    }
    if not symmetric:
        columns = [words(column, bits) for column in transpose(w.zeros)]
        parts["weight_zero_point"] = tensor("I32", [OUT * bits // 32, len(columns)], flat(transpose(columns)))
    if actorder == "group":
        parts["weight_g_idx"] = tensor("I32", [IN], w.group_of)
    return compressed(name, "pack-quantized", w, group, symmetric, actorder, parts)


def int_quantized(name, bits, group, symmetric=True, inputs=None, extra=None):
    """compressed-tensors: a byte for each number, with its sign."""
    w = Weight(name, bits, group, not symmetric, scale_bits=8)
    middle = 1 << (bits - 1)
    parts = {
        "weight": tensor("I8", [OUT, IN], [c - middle for c in flat(w.codes)]),
        "weight_scale": tensor("BF16", [OUT, len(w.scales[0])], flat(w.scales)),
    }
    if not symmetric:
        parts["weight_zero_point"] = tensor("I8", [OUT, len(w.zeros[0])], [z - middle for z in flat(w.zeros)])
    return compressed(name, "int-quantized", w, group, symmetric, None, parts | (extra or {}), inputs)


def compressed(name, form, w, group, symmetric, actorder, parts, inputs=None):
    weights = {"num_bits": w.bits, "type": "int", "symmetric": symmetric, "dynamic": False, "actorder": actorder,
               "strategy": "group" if group else "channel", "group_size": group or None}
    config = {"quant_method": "compressed-tensors", "format": form, "ignore": ["lm_head"],
              "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights, "input_activations": inputs}}}
    return name, config, parts, w


def gptq(name, bits, group, act_order=False, form="gptq", symmetric=False):
    """GPTQ: columns are packed, [words of inputs][outputs]; zero points along the outputs. In the
    first form GPTQModel takes one from each by a subtraction from the whole word, where a zero
    point of 0 borrows from the next. One of them is 0 here."""
    w = Weight(name, bits, group, not symmetric, act_order)
    if form == "gptq" and not symmetric:
        w.zeros[1][0] = 0
    ones = words([1] * (32 // bits), bits)[0]
    less = ones if form == "gptq" else 0
    columns = transpose([words(row, bits) for row in w.codes])
    zeros = [[word - less for word in words(row, bits)] for row in transpose(w.zeros)]
    parts = {
        "qweight": tensor("I32", [IN * bits // 32, OUT], flat(columns)),
        "qzeros": tensor("I32", [len(zeros), OUT * bits // 32], flat(zeros)),
        "scales": tensor("F16", [len(zeros), OUT], flat(transpose(w.scales))),
        "g_idx": tensor("I32", [IN], w.group_of),
    }
    config = {"quant_method": "gptq", "bits": bits, "group_size": group or -1, "desc_act": act_order, "sym": symmetric,
              "checkpoint_format": form}
    return name, config, parts, w


def awq(name, group):
    """AWQ: [inputs][words of outputs]; a word holds outputs 0, 2, 4, 6, 1, 3, 5, 7 of its eight, and so for zeros."""
    w = Weight(name, 4, group, True)

    def pack(row):
        return flat(words([row[i + j] for j in (0, 2, 4, 6, 1, 3, 5, 7)], 4) for i in range(0, OUT, 8))

    parts = {
        "qweight": tensor("I32", [IN, OUT // 8], flat(map(pack, transpose(w.codes)))),
        "qzeros": tensor("I32", [len(w.zeros[0]), OUT // 8], flat(map(pack, transpose(w.zeros)))),
        "scales": tensor("F16", [len(w.zeros[0]), OUT], flat(transpose(w.scales))),
    }
    config = {"quant_method": "awq", "bits": 4, "group_size": group, "zero_point": True, "version": "GEMM",
              "modules_to_not_convert": ["lm_head"]}
    return name, config, parts, w


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path, required=True)
    out = parser.parse_args().out
    cases = [
        pack_quantized("ct_w4", 4, 32),
        pack_quantized("ct_w4_zeros", 4, 32, symmetric=False),
        pack_quantized("ct_w4_act_order", 4, 32, actorder="group"),
        pack_quantized("ct_w8_rows", 8, 0),
        pack_quantized("ct_w8_zeros", 8, 32, symmetric=False),
        int_quantized("ct_int8", 8, 0),
        int_quantized("ct_int8_zeros", 8, 32, symmetric=False),
        int_quantized("ct_w8a8_dynamic", 8, 0, inputs={"num_bits": 8, "type": "int", "symmetric": True,
                                                       "strategy": "token", "dynamic": True}),
        int_quantized("ct_w8a8_static", 8, 0, extra={"input_scale": tensor("BF16", [1], [0.0625])},
                      inputs={"num_bits": 8, "type": "int", "symmetric": True, "strategy": "tensor",
                              "dynamic": False}),
        gptq("gptq_w4", 4, 32),
        gptq("gptq_w4_symmetric", 4, 64, symmetric=True),
        gptq("gptq_w4_act_order", 4, 32, act_order=True),
        gptq("gptq_w8_rows", 8, 0),
        gptq("gptq_v2_w4", 4, 32, form="gptq_v2"),
        awq("awq_w4", 32),
    ]
    for name, config, parts, w in cases:
        golden = {"quantization_config": config, "rows": OUT, "cols": IN, "tensors": parts,
                  "values": [float(f"{x:.9g}") for x in flat(w.values())]}
        (out / f"{name}.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
