"""Replaces the values of quantized projections by those that the packages of their forms unpack.

Usage: make_values.py [--check]      (after make_quantized.py and make_fp8.py)

Needs gptqmodel 7.7.0, autoawq 0.2.9 (it suffices without its dependencies) and compressed-tensors
0.19.0; and once more compressed-tensors 0.18.0, the last version that takes `actorder` `group`,
while it takes no blocks that are cut. A file whose package is not there in its version stays as it
is and is named. With --check nothing is written, and files that differ are an error.
"""

import argparse
import importlib.metadata
import json
import pathlib

import torch

HERE = pathlib.Path(__file__).resolve().parent
DTYPES = {"I8": torch.int8, "I32": torch.int32, "I64": torch.int64, "F16": torch.float16,
          "BF16": torch.bfloat16, "F32": torch.float32, "F8_E4M3": torch.float8_e4m3fn}
# vLLM alone defines a scale for a whole weight beside the method fp8, and compressed-tensors has
# scales of rows as [rows, 1], not as [rows].
UNCOVERED = {"ct_channel_flat", "method_tensor_dynamic", "method_tensor_static"}


def tensors(golden):
    """The stored tensors. Scales become fp32: in their own types packages would round products."""
    parts = {}
    for name, part in golden["tensors"].items():
        data = torch.frombuffer(bytearray.fromhex(part["data"]), dtype=DTYPES[part["dtype"]])
        data = data.reshape(part["shape"])
        parts[name] = data.float() if part["dtype"] in ("F16", "BF16") else data
    return parts


def compressed_tensors(config, parts):
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationScheme

    scheme = QuantizationScheme(**config["config_groups"]["group_0"])
    compressor = BaseCompressor.get_value_from_registry(config["format"])
    return compressor.decompress(parts, scheme)["weight"]


def fp8_blocks(config, parts):
    from compressed_tensors.entrypoints.convert.converters import FP8BlockDequantizer

    converter = FP8BlockDequantizer(targets=["up_proj"], dtype=torch.float32,
                                    weight_block_size=tuple(config["weight_block_size"]))
    parts = {f"up_proj.{name}": part for name, part in parts.items()}
    return converter.process(parts)["up_proj.weight"]


def gptq(config, parts):
    from gptqmodel.nn_modules.qlinear.torch import TorchLinear
    from gptqmodel.utils.model import convert_gptq_v1_to_v2_format_module

    inputs, outputs = len(parts["g_idx"]), parts["scales"].shape[1]
    linear = TorchLinear(config["bits"], config["group_size"], config["sym"], config["desc_act"],
                         inputs, outputs).eval()
    for name, part in parts.items():
        getattr(linear, name).data = part
    if config["checkpoint_format"] == "gptq":
        convert_gptq_v1_to_v2_format_module(linear, config["bits"], torch.int32)
    return linear.dequantize_weight().T


def awq(config, parts):
    from awq.utils.packing_utils import dequantize_gemm

    return dequantize_gemm(parts["qweight"], parts["qzeros"], parts["scales"], config["bits"],
                           config["group_size"]).T


def reader_of(name, config):
    """The package, its version, and what reads the file with it."""
    if config["quant_method"] == "gptq":
        return "gptqmodel", "7.7.0", gptq
    if config["quant_method"] == "awq":
        return "autoawq", "0.2.9", awq
    if config["quant_method"] == "fp8":
        return "compressed-tensors", "0.19.0", fp8_blocks
    version = "0.18.0" if name == "ct_w4_act_order" else "0.19.0"
    return "compressed-tensors", version, compressed_tensors


def installed(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def values_of(golden, read):
    weight = read(golden["quantization_config"], tensors(golden)).float()
    if list(weight.shape) != [golden["rows"], golden["cols"]]:
        raise SystemExit(f"a weight of {list(weight.shape)}")
    return [float(f"{x:.9g}") for x in weight.flatten().tolist()]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    different = 0
    for path in sorted([*HERE.glob("quantized/*.json"), *HERE.glob("fp8/*.json")]):
        text = path.read_text()
        golden = json.loads(text)
        if path.stem in UNCOVERED:
            print(f"{path.stem}: no package reads it")
            continue
        package, version, read = reader_of(path.stem, golden["quantization_config"])
        if installed(package) != version:
            print(f"{path.stem}: needs {package} {version}; found {installed(package)}")
            continue
        golden["values"] = values_of(golden, read)
        new = json.dumps(golden, separators=(",", ":")) + "\n"
        print(f"{path.stem}: {package} {version}: {'equal' if new == text else 'DIFFERENT'}")
        different += new != text
        if not check:
            path.write_text(new)
    if check and different:
        raise SystemExit(f"{different} files differ")


if __name__ == "__main__":
    main()
