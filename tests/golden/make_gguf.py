"""Blocks of every quantized type of GGUF that loads, and what the package `gguf` makes of them.

    python3 make_gguf.py

Needs gguf 0.19.0, of the authors of the format; the test that reads the files needs nothing.
"""

import json
import pathlib

import gguf
import numpy as np

TYPES = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"]
# Where a block has numbers in fp16, in bytes.
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q4_K": [0, 2],
          "Q5_K": [0, 2], "Q6_K": [208]}
ROWS = 3
BLOCKS = 2  # of a row


def random_blocks(kind, block_bytes, random):
    """Any bytes, with finite numbers of both signs and many sizes in fp16."""
    blocks = random.integers(0, 256, (ROWS * BLOCKS, block_bytes), dtype=np.uint8)
    for at in HALVES[kind]:
        halves = random.normal(size=ROWS * BLOCKS) * 2.0 ** random.integers(-20, 4, ROWS * BLOCKS)
        blocks[:, at:at + 2] = halves.astype(np.float16).view(np.uint8).reshape(-1, 2)
    return blocks.reshape(ROWS, -1)


def main():
    if gguf.GGUF_VERSION != 3:
        raise SystemExit(f"gguf writes version {gguf.GGUF_VERSION}; expected 3")
    folder = pathlib.Path(__file__).parent / "gguf"
    folder.mkdir(exist_ok=True)
    random = np.random.default_rng(20)
    for kind in TYPES:
        number = gguf.GGMLQuantizationType[kind]
        block, block_bytes = gguf.GGML_QUANT_SIZES[number]
        rows = random_blocks(kind, block_bytes, random)
        values = gguf.quants.dequantize(rows, number)
        golden = {"type": kind, "rows": ROWS, "cols": BLOCKS * block, "blocks": rows.tobytes().hex(),
                  "values": values.astype("<f4").tobytes().hex()}
        (folder / f"{kind}.json").write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
