"""Step costs of devices that are not at hand, reckoned from data sheets and the shape of a model; nothing is measured.

A step reads all weights once; each token, whether of a prompt or generated, multiplies with all of them; each generated
token reads its keys and values; prompts multiply queries with keys. A device does some of that at once, and the sum is
therefore an upper estimate where memory and arithmetic weigh about the same.
"""

import dataclasses

SCHEMA = "baton.step_cost/1"
BANDWIDTH_SHARE = 0.8  # of the data sheet's, that long reads get
MATMUL_SHARE = 0.6  # of the data sheet's peak, in products with weights
ATTENTION_SHARE = 0.4  # likewise, of queries with keys
LAUNCH_US = 200.0  # of a step, whatever it computes
MEMORY_SHARE = 0.9  # that a worker takes
OTHER_BYTES = 2e9  # activations and work space


@dataclasses.dataclass(frozen=True)
class Device:
    name: str
    flops: float  # dense, in bf16, per second
    bytes_per_s: float
    memory_bytes: float


@dataclasses.dataclass(frozen=True)
class Model:
    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    bytes_per_value: int = 2

    @property
    def multiplied(self) -> int:
        """Weights that each token is multiplied with: all but the table of embeddings."""
        attention = 2 * self.hidden * self.head_dim * (self.heads + self.kv_heads)
        return self.layers * (attention + 3 * self.hidden * self.ffn) + self.vocab * self.hidden

    @property
    def weights(self) -> int:
        return self.multiplied + self.vocab * self.hidden

    @property
    def kv_bytes_per_token(self) -> int:
        return 2 * self.layers * self.kv_heads * self.head_dim * self.bytes_per_value


H100 = Device("H100 SXM", 989e12, 3.35e12, 80e9)
L4 = Device("L4", 121e12, 300e9, 24e9)
LLAMA_8B = Model("Llama-3.1-8B", 32, 4096, 32, 8, 128, 14336, 128256)


def reckon(model: Model, device: Device) -> dict:
    """What `baton sim --step-cost` reads."""
    bandwidth = device.bytes_per_s * BANDWIDTH_SHARE
    token_us = 1e6 * 2 * model.multiplied / (device.flops * MATMUL_SHARE)
    product = 4 * model.layers * model.heads * model.head_dim  # flops: with the key, and by the value
    return {
        "schema": SCHEMA,
        "made_from": f"reckoned, not measured: {model.name} in bf16 on one {device.name}",
        "us": {
            "step": LAUNCH_US + 1e6 * model.multiplied * model.bytes_per_value / bandwidth,
            "row": token_us,
            "prompt_token": token_us,
            "kv_token": 1e6 * model.kv_bytes_per_token / bandwidth,
            "attention_product": 1e6 * product / (device.flops * ATTENTION_SHARE)
        }
    }


def pool_tokens(model: Model, device: Device) -> int:
    """Tokens whose keys and values have room beside the weights."""
    left = MEMORY_SHARE * device.memory_bytes - model.weights * model.bytes_per_value - OTHER_BYTES
    return int(left // model.kv_bytes_per_token)
