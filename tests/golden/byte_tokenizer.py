"""A tokenizer without merges: token id = byte for 0..255, then four special tokens. Standard library only."""

import json

SPECIALS = ["<|bos|>", "<|eos|>", "<|eot|>", "<|pad|>"]
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}[{{ message['role'] }}] {{ message['content'] }}<|eot|>{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}"
)


def byte_characters():
    """GPT-2's printable stand-in for each byte."""
    keep = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAC + 1), *range(0xAE, 0xFF + 1)]
    table, extra = {}, 0
    for b in range(256):
        table[b] = chr(b) if b in keep else chr(256 + extra)
        extra += b not in keep
    return table


def tokenizer_json():
    added = [{"id": 256 + i, "content": s, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": True} for i, s in enumerate(SPECIALS)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    bos = {"<|bos|>": {"id": "<|bos|>", "ids": [256], "tokens": ["<|bos|>"]}}
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<|bos|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"SpecialToken": {"id": "<|bos|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                     {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": bos},
        "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {c: b for b, c in byte_characters().items()}, "merges": []}}


def write_byte_tokenizer(out, template_inside):
    """template_inside: the transformers 4 place of the chat template; otherwise chat_template.jinja."""
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|bos|>", "eos_token": "<|eos|>",
              "pad_token": "<|pad|>", "model_max_length": 512, "clean_up_tokenization_spaces": False}
    if template_inside:
        config["chat_template"] = TEMPLATE
    else:
        (out / "chat_template.jinja").write_text(TEMPLATE)
    (out / "tokenizer.json").write_text(json.dumps(tokenizer_json(), ensure_ascii=False) + "\n")
    (out / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")
