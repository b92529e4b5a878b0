"""What is measured on which device: Llama-3.1-8B on a GPU, shapes of seconds in a dry run."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Shape:
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int

    def weight_bytes(self):
        """The bytes of bf16 that one decode step reads: layers and output projection."""
        qkv = (self.heads + 2 * self.kv_heads) * self.head_dim
        layer = self.hidden * (qkv + self.heads * self.head_dim + 3 * self.ffn)
        return 2 * (self.layers * layer + self.vocab * self.hidden)

    def kv_bytes_per_token(self):
        return 2 * 2 * self.layers * self.kv_heads * self.head_dim

    def prefill_flops(self, prompts, tokens):
        """Operations as bench_kernels counts them: layers, causal attention, logits of each prompt's last row."""
        qkv = (self.heads + 2 * self.kv_heads) * self.head_dim
        layer = self.hidden * (qkv + self.heads * self.head_dim + 3 * self.ffn)
        attention = 4 * self.heads * self.head_dim * tokens * (tokens + 1) / 2
        return prompts * (2 * tokens * self.layers * layer + self.layers * attention
                          + 2 * self.vocab * self.hidden)

    def flags(self):
        """The flags of `baton model make-random` for this shape."""
        return [part for name, value in dataclasses.asdict(self).items()
                for part in (f"--{name.replace('_', '-')}", str(value))]


@dataclasses.dataclass(frozen=True)
class Sizes:
    bench_shape: str       # bench_kernels --shape
    shape: Shape
    batches: tuple         # of the decode steps
    context: int           # tokens of each sequence there
    prefill: tuple         # (prompts, tokens of each)
    product_rows: tuple    # of the lines of matrix products
    integer_rows: tuple    # likewise, by weights of 4 and 8 bits
    rounds: int            # in turns with torch
    bench_rounds: int      # of each line within one
    handoff_tokens: int
    chunk_tokens: int      # of the steps behind which a handoff hides
    handoff_way: str
    handoffs: int
    users: int
    user_input: tuple      # tokens of a prompt, from and to: so users do not move in step
    user_output: tuple
    user_requests: int
    load_rounds: int
    golden_filter: str
    kill_ways: tuple
    peer_steps: int        # that torch takes the median of


CUDA = Sizes(
    bench_shape="llama-8b", shape=Shape(32, 4096, 32, 8, 128, 14336, 128256), batches=(1, 64), context=1024,
    prefill=(8, 1024), product_rows=(1, 64, 8192), integer_rows=(1, 4, 16, 32, 64, 8192),
    rounds=2, bench_rounds=3, handoff_tokens=8192,
    chunk_tokens=2048, handoff_way="cuda_ipc", handoffs=4, users=64, user_input=(256, 768),
    user_output=(64, 192), user_requests=256, load_rounds=1, golden_filter="*", kill_ways=("cuda_ipc", "nccl"),
    peer_steps=10)

CPU = Sizes(
    bench_shape="tiny", shape=Shape(2, 256, 8, 4, 32, 512, 2048), batches=(1, 8), context=64,
    prefill=(2, 64), product_rows=(1, 8, 128), integer_rows=(1, 128), rounds=1, bench_rounds=1, handoff_tokens=512,
    chunk_tokens=128, handoff_way="grpc", handoffs=2, users=4, user_input=(16, 48),
    user_output=(4, 12), user_requests=16, load_rounds=1, golden_filter="*llama31_hd16_cpu_auto", kill_ways=("grpc", "cuda_ipc", "nccl"),
    peer_steps=3)


def of(device):
    return CUDA if device == "cuda" else CPU
