"""Writes a model of `baton model make-random --arch llama` as GGUF, for llama.cpp's server.

    PYTHON scripts/random_gguf.py MODEL_DIR OUT.gguf --gguf-py DIR

For scripts/compare. llama.cpp's own converter wants a tokenizer that it knows, which a random model has
not. Here every id gets a word of its own, since llama.cpp's server cannot stream an id without text;
prompts are sent as ids. DIR is the folder gguf-py of a llama.cpp clone. Needs numpy.
"""

import argparse
import json
import pathlib
import sys

import numpy as np

LAYER_NAMES = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down"}
TOP_NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def tensors_of(path):
    """(name, shape, bytes) of every tensor of a safetensors file of bfloat16."""
    data = np.memmap(path, dtype=np.uint8, mode="r")
    size = int(data[:8].view(np.uint64)[0])
    header = json.loads(bytes(data[8:8 + size]))
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        if entry["dtype"] != "BF16":
            sys.exit(f"{path}: {name} is {entry['dtype']}; expected BF16")
        begin, end = entry["data_offsets"]
        yield name, entry["shape"], data[8 + size + begin:8 + size + end]


def gguf_name(name):
    base = name.removesuffix(".weight")
    if base in TOP_NAMES:
        return TOP_NAMES[base] + ".weight"
    _, _, layer, part = base.split(".", 3)
    return f"blk.{layer}.{LAYER_NAMES[part]}.weight"


def interleaved(rows, heads):
    """Rows of a query or key projection in llama.cpp's order: it rotates neighbours, Hugging Face
    rotates halves. `rows` is [heads * head_dim, bytes]."""
    half = rows.shape[0] // heads // 2
    return rows.reshape(heads, 2, half, -1).swapaxes(1, 2).reshape(rows.shape)


def add_settings(writer, config):
    heads = config["num_attention_heads"]
    head_dim = config.get("head_dim", config["hidden_size"] // heads)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_rope_dimension_count(head_dim)
    writer.add_vocab_size(config["vocab_size"])


def add_vocabulary(writer, gguf, config):
    count = config["vocab_size"]
    words = [f"\u2581w{i}" for i in range(count)]
    types = [gguf.TokenType.NORMAL] * count
    words[10], types[10] = "<0x0A>", gguf.TokenType.BYTE  # llama.cpp looks for a line feed
    for key, word in (("bos_token_id", "<s>"), ("eos_token_id", "</s>")):
        words[config[key]], types[config[key]] = word, gguf.TokenType.CONTROL
    writer.add_tokenizer_model("llama")
    writer.add_token_list(words)
    writer.add_token_scores([float(-i) for i in range(count)])
    writer.add_token_types(types)
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_add_bos_token(False)


def add_tensors(writer, gguf, config, path):
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    for name, shape, data in tensors_of(path):
        target = gguf_name(name)
        if len(shape) == 1:  # norms are float32 there
            wide = data.view(np.uint16).astype(np.uint32) << 16
            writer.add_tensor(target, wide.view(np.float32))
            continue
        rows = data.reshape(shape[0], 2 * shape[1])
        part = target.removesuffix(".weight").rsplit(".", 1)[-1]
        if part in heads:
            rows = interleaved(rows, heads[part])
        writer.add_tensor(target, np.ascontiguousarray(rows),
                          raw_dtype=gguf.GGMLQuantizationType.BF16)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("--gguf-py", required=True)
    options = parser.parse_args()
    sys.path.insert(0, options.gguf_py)
    import gguf  # of the folder that was named
    model = pathlib.Path(options.model)
    config = json.loads((model / "config.json").read_text())
    if config["architectures"] != ["LlamaForCausalLM"]:
        sys.exit(f"{model}: found {config['architectures']}; expected LlamaForCausalLM")
    writer = gguf.GGUFWriter(options.out, "llama")
    add_settings(writer, config)
    add_vocabulary(writer, gguf, config)
    add_tensors(writer, gguf, config, model / "model.safetensors")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
