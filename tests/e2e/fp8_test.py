"""A checkpoint of e4m3 is served on a CPU as the model of the numbers that it stands for, token for token."""

import json
import pathlib
import shutil
import struct
import subprocess
import tempfile
import unittest

from cluster import BIN, DEMO_MODEL, PATIENCE_S, Cluster

REQUESTS = [{"request_id": f"r{i}", "temperature": 0, "max_tokens": 40,
             "messages": [{"role": "user", "content": text}]}
            for i, text in enumerate(["Tell me a story about a fox.", "What is 7 + 5?", "Write a list of four words."])]


def value_of(code):
    """A code of e4m3: a sign, four bits of exponent with bias 7, three of mantissa."""
    exponent, mantissa = code >> 3 & 15, code & 7
    magnitude = mantissa * 2.0 ** -9 if exponent == 0 else (8 + mantissa) * 2.0 ** (exponent - 10)
    return -magnitude if code & 0x80 else magnitude


def fp32(number):
    return struct.unpack("<f", struct.pack("<f", number))[0]


def bf16_bits(number):
    """Of an fp32 number, rounded to the nearest, ties to even."""
    bits = struct.unpack("<I", struct.pack("<f", number))[0]
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def read(path):
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: (entry["dtype"], entry["shape"], data[8 + size:][slice(*entry["data_offsets"])])
            for name, entry in header.items()}


def write(path, tensors):
    header, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))


def widened(tensors):
    """The same weights in bf16, as another program would compute them."""
    out = {}
    for name, (dtype, shape, data) in tensors.items():
        if name.endswith(".weight_scale"):
            continue
        if dtype == "F8_E4M3":
            scales = struct.unpack(f"<{shape[0]}f", tensors[name + "_scale"][2])
            numbers = []
            for row, scale in enumerate(scales):
                table = [bf16_bits(fp32(value_of(code) * scale)) for code in range(256)]
                numbers.extend(table[code] for code in data[row * shape[1]:(row + 1) * shape[1]])
            dtype, data = "BF16", struct.pack(f"<{len(numbers)}H", *numbers)
        out[name] = (dtype, shape, data)
    return out


class Fp8Test(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="baton-fp8-")
        cls.addClassCleanup(folder.cleanup)
        cls.fp8, cls.plain = pathlib.Path(folder.name) / "fp8", pathlib.Path(folder.name) / "plain"
        subprocess.run([BIN / "baton", "model", "quantize", DEMO_MODEL, cls.fp8, "--scheme", "fp8"], check=True,
                       timeout=PATIENCE_S, stdout=subprocess.DEVNULL)
        shutil.copytree(cls.fp8, cls.plain)
        write(cls.plain / "model.safetensors", widened(read(cls.fp8 / "model.safetensors")))
        config = json.loads((cls.plain / "config.json").read_text())
        del config["quantization_config"]
        (cls.plain / "config.json").write_text(json.dumps(config))

    def answers(self, model, prefill):
        with Cluster(model=model, prefill=prefill) as service:
            found = service.generate(REQUESTS, "--chat", concurrency=3)
            service.assert_nothing_held()
        return [(answer["token_ids"], answer["text"], answer["finish_reason"]) for answer in found]

    def test_the_same_answers_as_the_widened_model(self):
        expected = self.answers(self.plain, prefill=0)
        self.assertEqual(self.answers(self.fp8, prefill=0), expected)
        self.assertEqual(self.answers(self.fp8, prefill=1), expected)

    def test_a_code_that_is_no_number_is_refused_by_the_name_of_its_tensor(self):
        tensors = read(self.fp8 / "model.safetensors")
        name = next(name for name, tensor in tensors.items() if tensor[0] == "F8_E4M3")
        dtype, shape, data = tensors[name]
        broken = pathlib.Path(self.plain.parent) / "broken"
        shutil.copytree(self.fp8, broken)
        write(broken / "model.safetensors", {**tensors, name: (dtype, shape, b"\x7f" + data[1:])})
        run = subprocess.run([BIN / "baton-decode", broken], capture_output=True, text=True, timeout=PATIENCE_S,
                             check=False)
        self.assertEqual(run.returncode, 3, run.stderr)
        self.assertIn(f"tensor {name} holds a NaN", run.stderr)


if __name__ == "__main__":
    unittest.main()
