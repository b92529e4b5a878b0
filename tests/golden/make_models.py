"""Writes tiny random models of each family with their golden logits and greedy tokens.

Usage: make_models.py --out tests/golden/models [NAME…]     (needs torch and transformers)
The formats are described in README.md. Golden values are computed from the written directory, in fp32, with
eager attention, so they also hold for weights that were rounded to bf16 or fp16.
"""

import argparse
import json
import pathlib
import shutil

import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.utils import logging

from byte_tokenizer import write_byte_tokenizer

VOCAB, BOS, EOS, EOT, PAD = 320, 256, 257, 258, 259
PROMPT = [BOS] + list("The quick brown fox jumps over the lazy dog.".encode())
STEPS = 64
MIN_GAP = 1e-2
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}

COMMON = {"hidden_act": "silu", "initializer_range": 0.02, "bos_token_id": BOS, "eos_token_id": EOS,
          "rms_norm_eps": 1e-5, "use_cache": True, "vocab_size": VOCAB, "attention_dropout": 0.0}
LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "attention_bias": False, "mlp_bias": False}
MISTRAL = {"architectures": ["MistralForCausalLM"], "model_type": "mistral"}
QWEN2 = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "rms_norm_eps": 1e-6}
QWEN3 = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "attention_bias": False, "rms_norm_eps": 1e-6}
LLAMA3_ROPE = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 32, "rope_type": "llama3"}


def shape(hidden, layers, heads, kv_heads, ffn, context=512):
    return {"hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads,
            "num_key_value_heads": kv_heads, "intermediate_size": ffn, "max_position_embeddings": context}


# name: config.json as published models have it. "torch_dtype" and "rope_theta" at the top level are the
# transformers 4 form, "dtype" and "rope_parameters" the transformers 5 form.
CONFIGS = {
    "llama2_hd64": COMMON | LLAMA | shape(64, 2, 2, 2, 96) | {
        "torch_dtype": "float32", "rope_scaling": None, "rope_theta": 10000.0, "tie_word_embeddings": False,
        "pretraining_tp": 1, "transformers_version": "4.31.0"},
    "llama31_hd16": COMMON | LLAMA | shape(64, 3, 4, 2, 96) | {
        "dtype": "float32", "head_dim": 16, "tie_word_embeddings": True, "eos_token_id": [EOS, EOT],
        "rope_parameters": LLAMA3_ROPE | {"rope_theta": 500000.0}, "transformers_version": "5.0.0"},
    "llama31_hd128_bf16": COMMON | LLAMA | shape(64, 2, 2, 1, 100) | {
        "torch_dtype": "bfloat16", "head_dim": 128, "tie_word_embeddings": False, "eos_token_id": [EOS, EOT],
        "rope_scaling": LLAMA3_ROPE, "rope_theta": 500000.0, "transformers_version": "4.43.0"},
    "mistral_hd24": COMMON | MISTRAL | shape(48, 2, 4, 2, 80) | {
        "torch_dtype": "float32", "head_dim": 24, "sliding_window": 8, "rope_theta": 10000.0,
        "tie_word_embeddings": False, "transformers_version": "4.42.0"},
    "mistral_hd80_fp16": COMMON | MISTRAL | shape(80, 2, 2, 1, 72) | {
        "dtype": "float16", "head_dim": 80, "sliding_window": None, "tie_word_embeddings": False,
        "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"}, "transformers_version": "5.0.0"},
    "qwen2_hd16": COMMON | QWEN2 | shape(64, 2, 4, 2, 104) | {
        "torch_dtype": "float32", "rope_theta": 1000000.0, "sliding_window": 4, "use_sliding_window": False,
        "max_window_layers": 2, "tie_word_embeddings": True, "transformers_version": "4.40.1"},
    "qwen2_hd64_sharded": COMMON | QWEN2 | shape(64, 2, 1, 1, 96) | {
        "dtype": "float32", "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"},
        "sliding_window": None, "use_sliding_window": False, "layer_types": ["full_attention"] * 2,
        "tie_word_embeddings": False, "transformers_version": "5.0.0"},
    "qwen3_hd80": COMMON | QWEN3 | shape(64, 2, 4, 2, 96) | {
        "dtype": "float32", "head_dim": 80, "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"},
        "layer_types": ["full_attention"] * 2, "sliding_window": None, "use_sliding_window": False,
        "tie_word_embeddings": True, "transformers_version": "5.0.0"},
    "qwen3_hd128_bf16": COMMON | QWEN3 | shape(64, 2, 2, 1, 96) | {
        "torch_dtype": "bfloat16", "head_dim": 128, "rope_scaling": None, "rope_theta": 1000000.0,
        "sliding_window": None, "use_sliding_window": False, "max_window_layers": 2,
        "tie_word_embeddings": False, "transformers_version": "4.51.0"},
}


def randomize(model, seed):
    """Large enough that logits differ clearly; norms and biases are not left at 1 and 0.

    Embeddings stay small beside what the layers add, or tied models would only repeat their input.
    """
    g = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        noise = torch.randn(p.shape, generator=g)
        if name.endswith("norm.weight"):
            p.data = 1 + 0.2 * noise
        elif name.endswith("bias"):
            p.data = 0.5 * noise
        elif "embed_tokens" in name:
            p.data = 0.4 * noise
        else:
            p.data = noise * 1.5 / p.shape[1] ** 0.5


def save_weights(model, out, dtype, shards):
    tensors = {k: v.to(dtype).contiguous() for k, v in model.state_dict().items()}
    if model.config.tie_word_embeddings:
        tensors.pop("lm_head.weight")
    if shards == 1:
        save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
        return
    names, weight_map = sorted(tensors), {}
    for i in range(shards):
        file = f"model-{i + 1:05}-of-{shards:05}.safetensors"
        part = names[i::shards]
        save_file({n: tensors[n] for n in part}, out / file, metadata={"format": "pt"})
        weight_map |= {n: file for n in part}
    total = sum(t.numel() * t.element_size() for t in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    (out / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")


def write_directory(out, config, seed):
    if out.exists():
        shutil.rmtree(out)
    out.mkdir(parents=True)
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(out), dtype=torch.float32)
    randomize(model, seed)
    dtype = DTYPES[config.get("dtype") or config["torch_dtype"]]
    save_weights(model, out, dtype, 3 if "sharded" in out.name else 1)
    generation = {"bos_token_id": BOS, "eos_token_id": config["eos_token_id"], "do_sample": False,
                  "transformers_version": config["transformers_version"]}
    (out / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")
    write_byte_tokenizer(out, template_inside="torch_dtype" in config)


def load(out):
    return AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32, attn_implementation="eager").eval()


@torch.inference_mode()
def golden(model):
    """Greedy tokens (EOS ignored), one whole forward pass per token: no cache is trusted."""
    ids, gaps = list(PROMPT), []
    for _ in range(STEPS):
        top = model(torch.tensor([ids])).logits[0, -1].topk(2)
        gaps.append((top.values[0] - top.values[1]).item())
        ids.append(top.indices[0].item())
    logits = model(torch.tensor([ids])).logits[0]
    positions = [0, 9, len(PROMPT) - 1, len(PROMPT) + 20, len(ids) - 2]
    return {"prompt_ids": PROMPT, "greedy_ids": ids[len(PROMPT):], "min_gap": min(gaps),
            "logits": [{"position": p, "values": logits[p].tolist()} for p in positions]}


def special_part_bites(out, config, expected):
    """The window, the rope scaling and the biases must change the logits, or the test would not see them."""
    changed = dict(config)
    if config.get("sliding_window") and config["model_type"] == "mistral":
        changed["sliding_window"] = None
    elif "rope_scaling" in config and config["rope_scaling"]:
        changed["rope_scaling"] = None
    elif config.get("rope_parameters", {}).get("rope_type") == "llama3":
        changed["rope_parameters"] = {"rope_theta": 500000.0, "rope_type": "default"}
    else:
        return True
    (out / "config.json").write_text(json.dumps(changed))
    other = golden(load(out))["logits"][2]["values"]
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    return max(abs(x - y) for x, y in zip(other, expected["logits"][2]["values"])) > 0.05


def round_floats(value):
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, list):
        return [round_floats(v) for v in value]
    return {k: round_floats(v) for k, v in value.items()} if isinstance(value, dict) else value


def make(out, config):
    for seed in range(1, 200):
        write_directory(out, config, seed)
        result = golden(load(out))
        if result["min_gap"] > MIN_GAP and len(set(result["greedy_ids"])) >= 16:
            break
    else:
        raise SystemExit(f"{out.name}: no seed with clear greedy gaps")
    assert special_part_bites(out, config, result), out.name
    result = {"model": out.name, "seed": seed} | result
    (out / "golden.json").write_text(json.dumps(round_floats(result)) + "\n")
    size = sum(f.stat().st_size for f in out.iterdir())
    print(f"{out.name}: seed {seed}, min gap {result['min_gap']:.4f}, "
          f"{len(set(result['greedy_ids']))} distinct tokens, {size / 1024:.0f} KiB", flush=True)


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--out", type=pathlib.Path, required=True)
    ap.add_argument("names", nargs="*")
    args = ap.parse_args()
    torch.set_num_threads(1)
    logging.disable_progress_bar()
    for name in args.names or CONFIGS:
        make(args.out / name, CONFIGS[name])


if __name__ == "__main__":
    main()
