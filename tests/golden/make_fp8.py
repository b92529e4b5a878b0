"""Writes projections of e4m3 in every form that loads, with the numbers that they stand for.

Usage: make_fp8.py --out tests/golden/fp8      (needs the Python packages numpy and ml_dtypes)
Run make_values.py next, which takes the values from the packages of the forms where these cover it.

Codes are decoded by the type float8_e4m3fn of ml_dtypes, and multiplied by their scale in fp32. Every code that is a
number occurs. Scales are any numbers of their type.
"""

import argparse
import json
import pathlib

import ml_dtypes
import numpy as np

OUT, IN = 24, 80
CODES = [code for code in range(256) if code & 0x7F != 0x7F]


def tensor(dtype, array):
    return {"dtype": dtype, "shape": list(array.shape), "data": array.tobytes().hex()}


def golden(name, config, scale, scale_type="F32", part="weight_scale", block=None, input_scale=None):
    """`scale` maps a generator to the array of scales; `block` are rows and columns that share one."""
    rng = np.random.default_rng(list(name.encode()))
    codes = np.resize(np.array(CODES, dtype=np.uint8), OUT * IN)
    rng.shuffle(codes)
    codes = codes.reshape(OUT, IN)
    types = {"F32": np.float32, "BF16": ml_dtypes.bfloat16, "F16": np.float16}
    scales = scale(rng).astype(types[scale_type])
    spread = scales.astype(np.float32)
    if block:
        spread = np.repeat(np.repeat(spread, block[0], axis=0), block[1], axis=1)[:OUT, :IN]
    elif spread.size == 1:
        spread = spread.reshape(1, 1)
    else:
        spread = spread.reshape(OUT, 1)
    values = codes.view(ml_dtypes.float8_e4m3fn).astype(np.float32) * spread
    parts = {"weight": tensor("F8_E4M3", codes), part: tensor(scale_type, scales)}
    if input_scale is not None:
        parts["input_scale"] = tensor("F32", np.array(input_scale, dtype=np.float32))
    return name, {"quantization_config": config, "rows": OUT, "cols": IN, "tensors": parts,
                  "values": [float(f"{x:.9g}") for x in values.flatten()]}


def compressed(strategy, inputs=None, **weights):
    weights = {"num_bits": 8, "type": "float", "symmetric": True, "strategy": strategy, "dynamic": False, **weights}
    return {"quant_method": "compressed-tensors", "format": "float-quantized", "ignore": ["lm_head"],
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights, "input_activations": inputs}}}


def inputs(dynamic):
    return {"num_bits": 8, "type": "float", "symmetric": True, "strategy": "token" if dynamic else "tensor",
            "dynamic": dynamic}


def shaped(*shape):
    return lambda rng: rng.uniform(0.001, 0.01, size=shape)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path, required=True)
    out = parser.parse_args().out
    method = {"quant_method": "fp8", "fmt": "e4m3"}
    cases = [
        golden("ct_channel", compressed("channel", inputs(True)), shaped(OUT, 1), "BF16"),
        golden("ct_channel_flat", compressed("channel"), shaped(OUT)),
        golden("ct_tensor_static", compressed("tensor", inputs(False)), shaped(1), input_scale=[0.015]),
        golden("ct_blocks", compressed("block", inputs(True), block_structure=[16, 32]), shaped(2, 3), block=(16, 32)),
        golden("method_tensor_static", {**method, "activation_scheme": "static"}, shaped(), input_scale=0.02),
        golden("method_tensor_dynamic", {**method, "activation_scheme": "dynamic"}, shaped(1), "F16"),
        golden("method_blocks", {**method, "activation_scheme": "dynamic", "weight_block_size": [16, 32]}, shaped(2, 3),
               part="weight_scale_inv", block=(16, 32)),
    ]
    for name, content in cases:
        (out / f"{name}.json").write_text(json.dumps(content, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
