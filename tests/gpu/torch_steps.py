"""Single steps of transformers on torch: eager, sdpa attention, random weights of a given shape, bf16.

    PYTHON torch_steps.py --device cuda|cpu --shape JSON

For tests/gpu/run. Prints one JSON line about itself when the model is there, then answers each JSON line
of its standard input with one: {"kind": "limits"} with the copy bandwidth (read and written) and the
bf16 matrix product's rate, {"kind": "decode"|"prefill", "count", "tokens", "steps"} with the median
seconds of one step. What cannot be done is {"error": why}.
"""

import argparse
import json
import statistics
import sys
import time


def answer(**fields):
    print(json.dumps(fields), flush=True)


class Steps:
    def __init__(self, torch, transformers, device, shape):
        self.torch, self.transformers, self.device, self.shape = torch, transformers, device, shape
        config = transformers.LlamaConfig(
            vocab_size=shape["vocab"], hidden_size=shape["hidden"], intermediate_size=shape["ffn"],
            num_hidden_layers=shape["layers"], num_attention_heads=shape["heads"],
            num_key_value_heads=shape["kv_heads"], head_dim=shape["head_dim"], max_position_embeddings=16384,
            bos_token_id=None, eos_token_id=None, pad_token_id=None)
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.bfloat16)
        try:
            with torch.device(device):
                model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
        finally:
            torch.set_default_dtype(before)
        self.model = model.to(torch.bfloat16).eval()

    def wait(self):
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def median(self, count, work):
        seconds = []
        for _ in range(count):
            self.wait()
            begin = time.perf_counter()
            work()
            self.wait()
            seconds.append(time.perf_counter() - begin)
        return statistics.median(seconds)

    def limits(self):
        torch, large = self.torch, self.device == "cuda"
        size, side = (1 << 30, 8192) if large else (1 << 24, 512)
        source = torch.empty(size, dtype=torch.uint8, device=self.device)
        target = torch.empty_like(source)
        a = torch.randn(side, side, device=self.device).to(torch.bfloat16)
        b = torch.randn(side, side, device=self.device).to(torch.bfloat16)
        for _ in range(3):
            target.copy_(source)
            a @ b  # pylint: disable=pointless-statement
        return {"bytes_per_s": 2 * size / self.median(10, lambda: target.copy_(source)),
                "flops_per_s": 2 * side**3 / self.median(10, lambda: a @ b)}

    def cache_of(self, count, tokens):
        """A KV cache of `tokens` tokens for `count` sequences, filled and not computed."""
        torch, shape = self.torch, self.shape
        cache = self.transformers.DynamicCache()
        for layer in range(shape["layers"]):
            key, value = (torch.randn(count, shape["kv_heads"], tokens, shape["head_dim"], device=self.device,
                                      dtype=torch.bfloat16) for _ in range(2))
            cache.update(key, value, layer)
        return cache

    def forward(self, ids, cache):
        out = self.model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
        return out.logits[:, -1].argmax(-1, keepdim=True)

    def decode(self, count, tokens, steps):
        state = {"ids": self.torch.full((count, 1), 7, device=self.device)}
        cache = self.cache_of(count, tokens)

        def step():
            state["ids"] = self.forward(state["ids"], cache)
        for _ in range(3):
            step()
        return {"seconds": self.median(steps, step)}

    def prefill(self, count, tokens, steps):
        ids = self.torch.full((count, tokens), 7, device=self.device)
        self.forward(ids, self.transformers.DynamicCache())
        return {"seconds": self.median(min(steps, 3),
                                       lambda: self.forward(ids, self.transformers.DynamicCache()))}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), required=True)
    parser.add_argument("--shape", type=json.loads, required=True)
    options = parser.parse_args()
    try:
        import torch  # pylint: disable=import-outside-toplevel
        import transformers  # pylint: disable=import-outside-toplevel
    except ImportError as error:
        answer(error=f"{sys.executable} has no torch and transformers: {error}")
        return 0
    if options.device == "cuda" and not torch.cuda.is_available():
        answer(error=f"torch {torch.__version__} sees no GPU")
        return 0
    with torch.inference_mode():
        try:
            work = Steps(torch, transformers, options.device, options.shape)
        except Exception as error:  # pylint: disable=broad-except
            answer(error=f"transformers {transformers.__version__} makes no such model: {error}")
            return 0
        answer(torch=torch.__version__, transformers=transformers.__version__)
        for line in sys.stdin:
            question = json.loads(line)
            kind = question.pop("kind")
            try:
                answer(**{"limits": work.limits, "decode": work.decode, "prefill": work.prefill}[kind](**question))
            except Exception as error:  # pylint: disable=broad-except
                answer(error=f"{kind} {question}: {type(error).__name__}: {error}"[:300])
    return 0


if __name__ == "__main__":
    sys.exit(main())
