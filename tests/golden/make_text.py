"""Writes tokenizer and chat template goldens, as Hugging Face tokenizers and transformers answer them.

Usage: make_text.py --demo models/demo --out tests/golden/text
"""

import argparse
import json
import pathlib
import tempfile

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

STRINGS = [
    "", " ", "a", "Hello world", " leading", "trailing ", "  two  spaces   three    four", "line\nbreaks\n\n\nmany\r\n",
    "\ttabs\t\tand\u00a0nbsp", "It's what they'll say: don't we've I'm you'd", "numbers 1 12 123 1234567890 3.14 -7",
    "Ünïcödé naïve café résumé", "e\u0301 combining versus é", "ﬁ ligature ① Ⅳ ㎏", "中文字符和日本語のテキスト", "한국어 텍스트",
    "Привет, как дела?", "مرحبا بالعالم", "नमस्ते दुनिया", "👍🏽 👨‍👩‍👧‍👦 🇳🇴 🎉🎉", "zero\u200bwidth\u200djoin\ufeffbom", "\u0000\u0001\u007f",
    "def f(x):\n    return x**2  # square\n", "{\"key\": [1, 2, {\"a\": null}]}", "<html>&amp;</html>", "a_b-c/d\\e|f~g`h^i",
    "UPPER lower MiXeD", "!!!???...,,,", "https://example.com/path?x=1&y=2#z", "word" * 20, "A" * 50, "\n", "   \n  \n ",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𐍈", "Once upon a time, there was a little fox named Milo.", "<|bos|>special<|end|> inside <|user|>text",
    "<s>old</s> style <unk>", "[CLS] bert [SEP] [MASK]", "1. apple\n2. pear\n3. plum",
]
TRAINING = [s for s in STRINGS if s.isascii()] * 3 + [
    "the quick brown fox jumps over the lazy dog and then the dog jumps over the fox",
    "a story about a king and a queen and their three children in the old town by the sea",
    "Counting: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13", "Hello there, hello again, how are you today? It's fine.",
    "Über die Brücke café naïve"] * 5


def llama2_style():
    """SentencePiece BPE as converted for Llama 2: ▁ by normalizer, byte fallback, decoder sequence."""
    tok = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tok.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tok.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                     decoders.Strip(" ", 1, 0)])
    specials = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    train(tok, trainers.BpeTrainer(vocab_size=420, special_tokens=specials, show_progress=False, max_token_length=8),
          keep_special=3)
    return with_bos(tok, "<s>")


def metaspace_unigram():
    tok = Tokenizer(models.Unigram())
    tok.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    tok.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    tok.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    train(tok, trainers.UnigramTrainer(vocab_size=240, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>",
                                       show_progress=False))
    eos = tok.token_to_id("</s>")
    tok.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>",
                                                       special_tokens=[("</s>", eos)])
    return tok


def wordpiece():
    tok = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tok.normalizer = normalizers.BertNormalizer(lowercase=True)
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tok.decoder = decoders.WordPiece(prefix="##")
    train(tok, trainers.WordPieceTrainer(vocab_size=280, show_progress=False,
                                         special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    tok.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]",
        special_tokens=[(t, tok.token_to_id(t)) for t in ("[CLS]", "[SEP]")])
    return tok


LLAMA3_SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
                r"|\s*[\r\n]+|\s+(?!\S)|\s+")


def llama3_style():
    """Split by regex, then byte level without its own regex; ignore_merges; BOS by post-processor."""
    tok = Tokenizer(models.BPE(ignore_merges=True))
    byte_level_split(tok, LLAMA3_SPLIT)
    train(tok, trainers.BpeTrainer(vocab_size=380, show_progress=False, special_tokens=["<|bos|>", "<|end|>"],
                                   initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())))
    return with_bos(tok, "<|bos|>")


def qwen_style():
    """NFC, single digits, no BOS at all."""
    tok = Tokenizer(models.BPE())
    tok.normalizer = normalizers.NFC()
    byte_level_split(tok, LLAMA3_SPLIT.replace("{1,3}", ""))
    train(tok, trainers.BpeTrainer(vocab_size=380, show_progress=False, special_tokens=["<|end|>", "<|user|>"],
                                   initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())))
    tok.post_processor = processors.ByteLevel(trim_offsets=False)
    return tok


def byte_level_split(tok, pattern):
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), behavior="isolated", invert=False),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()


def with_bos(tok, bos):
    tok.post_processor = processors.TemplateProcessing(single=f"{bos} $A", pair=f"{bos} $A $B",
                                                       special_tokens=[(bos, tok.token_to_id(bos))])
    return tok


def train(tok, trainer, keep_special=None):
    """keep_special: only the first n are special; the rest are ordinary vocabulary, as SentencePiece's bytes are."""
    tok.train_from_iterator(TRAINING, trainer)
    if keep_special is not None:
        data = json.loads(tok.to_str())
        data["added_tokens"] = data["added_tokens"][:keep_special]
        tok.__setstate__(Tokenizer.from_str(json.dumps(data)).__getstate__())


def tokenizer_golden(tok):
    cases = []
    for text in STRINGS:
        ids = tok.encode(text, add_special_tokens=False).ids
        cases.append({"text": text, "ids": ids, "ids_with_special": tok.encode(text).ids,
                      "decoded": tok.decode(ids, skip_special_tokens=False),
                      "decoded_skip_special": tok.decode(tok.encode(text).ids, skip_special_tokens=True)})
    return cases


VOCABULARY_ONLY = {"added_tokens": []}
END = {"content": "<|end|>", "lstrip": False, "rstrip": False, "single_word": False, "normalized": False, "special": True}
# What files beside a tokenizer.json may say: (what is changed in it, the files).
SETTINGS = {
    "eos_in_vocabulary": (VOCABULARY_ONLY, {"tokenizer_config.json": {"eos_token": "<|end|>"}}),
    "nothing_named": (VOCABULARY_ONLY, {"tokenizer_config.json": {}}),
    "decoder": (VOCABULARY_ONLY, {"tokenizer_config.json": {"added_tokens_decoder": {"1": END}}}),
    "decoder_strips": ({}, {"tokenizer_config.json": {
        "added_tokens_decoder": {"1": {**END, "lstrip": True, "rstrip": True}}}}),
    "decoder_not_special": (VOCABULARY_ONLY, {"tokenizer_config.json": {
        "added_tokens_decoder": {"1": {**END, "special": False}, "0": {**END, "content": "<|bos|>", "special": False}},
        "eos_token": "<|end|>"}}),
    "additional": (VOCABULARY_ONLY, {"tokenizer_config.json": {"additional_special_tokens": ["<|end|>", "<|user|>"]}}),
    "extra": (VOCABULARY_ONLY, {"tokenizer_config.json": {
        "extra_special_tokens": ["<|end|>"], "additional_special_tokens": ["<|user|>"]}}),
    "extra_by_name": (VOCABULARY_ONLY, {"tokenizer_config.json": {
        "extra_special_tokens": {"user_token": "<|user|>"}, "image_token": "<|end|>", "add_bos_token": True}}),
    "special_map": (VOCABULARY_ONLY, {
        "tokenizer_config.json": {"bos_token": "<|user|>", "pad_token": "<s>"},
        "special_tokens_map.json": {"bos_token": {**END, "content": "<|bos|>", "lstrip": True}, "eos_token": "<|end|>",
                                    "pad_token": None}}),
    "special_map_beside_decoder": (VOCABULARY_ONLY, {
        "tokenizer_config.json": {"bos_token": "<|bos|>", "added_tokens_decoder": {}},
        "special_tokens_map.json": {"eos_token": "<|end|>"}}),
    "added_file": (VOCABULARY_ONLY, {"tokenizer_config.json": {"eos_token": "<|user|>"},
                                     "added_tokens.json": {"<|user|>": 380, "<|end|>": 1}}),
    "new_tokens": ({}, {"tokenizer_config.json": {
        "pad_token": "<|user|>", "image_token": "[CLS]", "eos_token": "<|user|>"}}),
}
SETTINGS_TEXT = "a <|end|> b <|bos|> <|user|>c <s>[CLS]"


def settings_golden(tok):
    """What transformers makes of the same tokenizer.json with other files beside it."""
    cases = []
    for name, (changes, files) in SETTINGS.items():
        with tempfile.TemporaryDirectory() as folder:
            data = {**json.loads(tok.to_str()), **changes}
            for file, content in {**files, "tokenizer.json": data}.items():
                pathlib.Path(folder, file).write_text(json.dumps(content))
            fast = PreTrainedTokenizerFast.from_pretrained(folder)
        ids = fast(SETTINGS_TEXT, add_special_tokens=False)["input_ids"]
        cases.append({"name": name, "tokenizer_changes": changes, "files": files, "text": SETTINGS_TEXT, "ids": ids,
                      "decoded_skip_special": fast.decode(ids, skip_special_tokens=True), "special": fast.special_tokens_map})
    return cases


SYSTEM = {"role": "system", "content": "Be brief. "}
USER = {"role": "user", "content": " What is 2+2? "}
REPLY = {"role": "assistant", "content": "<think>\nsum\n</think>\n\nFour. "}
AGAIN = {"role": "user", "content": "Sûr? 👍\n\"quoted\" <b>"}
CALL = {"role": "assistant", "content": "", "tool_calls": [
    {"type": "function", "function": {"name": "add", "arguments": {"b": 2, "a": "é"}}}]}
RESULT = {"role": "tool", "content": "4"}
CONVERSATIONS = {
    "one": [USER], "system": [SYSTEM, USER], "three": [USER, REPLY, AGAIN], "four": [SYSTEM, USER, REPLY, AGAIN],
    "ends_with_assistant": [USER, REPLY], "wrong_order": [USER, AGAIN], "tool": [USER, CALL, RESULT]}
TOOLS = [{"type": "function", "function": {"name": "add", "description": "Adds <two> numbers",
                                           "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}}]
EXTRAS = [{}, {"enable_thinking": False}, {"date_string": "1 Jan 2025"}, {"tools": TOOLS}]
USES = {"qwen3": ["enable_thinking"], "llama31": ["date_string", "tools"], "qwen25": ["tools"]}
TOKENS = {"demo": ("<|bos|>", "<|end|>"), "llama3": ("<|begin_of_text|>", "<|eot_id|>"),
          "llama31": ("<|begin_of_text|>", "<|eot_id|>"), "gemma": ("<bos>", "<eos>")}
TOOL_FAMILIES = {"llama31", "qwen25"}


def chat_cases(tok, name, template):
    bos, eos = TOKENS.get(name, ("<s>", "</s>"))
    fast = PreTrainedTokenizerFast(tokenizer_object=tok, bos_token=bos, eos_token=eos)
    for conversation, messages in CONVERSATIONS.items():
        if conversation == "tool" and name not in TOOL_FAMILIES:
            continue
        for extra in EXTRAS:
            if any(key not in USES.get(name, []) for key in extra):
                continue
            for add in (True, False):
                case = {"template": name, "conversation": conversation, "bos_token": bos, "eos_token": eos,
                        "messages": messages, "add_generation_prompt": add, "extra": extra}
                try:
                    case["expected"] = fast.apply_chat_template(
                        messages, chat_template=template, add_generation_prompt=add, tokenize=False, **extra)
                except Exception as error:  # noqa: BLE001 (jinja2.TemplateError and friends)
                    case["error"] = str(error)
                yield case


def dump(path, value):
    path.write_text(json.dumps(value, ensure_ascii=True, indent=None, separators=(",", ":")).replace(
        '},{"te', '},\n{"te') + "\n")


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--demo", type=pathlib.Path, required=True)
    ap.add_argument("--out", type=pathlib.Path, required=True)
    args = ap.parse_args()
    folder = args.out / "tokenizers"
    folder.mkdir(parents=True, exist_ok=True)
    demo = Tokenizer.from_file(str(args.demo / "tokenizer.json"))
    dump(folder / "demo.golden.json", {"tokenizer": "models/demo/tokenizer.json", "cases": tokenizer_golden(demo)})
    for make in (llama2_style, metaspace_unigram, wordpiece, llama3_style, qwen_style):
        tok, name = make(), make.__name__
        path = folder / f"{name}.json"
        if path.exists():  # training is not bit-stable everywhere; the committed vocabulary stays
            tok = Tokenizer.from_file(str(path))
        else:
            tok.save(str(path))
        dump(folder / f"{name}.golden.json",
             {"tokenizer": f"tests/golden/text/tokenizers/{name}.json", "cases": tokenizer_golden(tok)})
        print(name, tok.get_vocab_size())
    llama3 = "tokenizers/llama3_style.json"
    dump(args.out / "settings.golden.json", {"tokenizer": f"tests/golden/text/{llama3}",
                                             "cases": settings_golden(Tokenizer.from_file(str(args.out / llama3)))})
    templates = {p.stem: p.read_text().rstrip("\n") if p.stem != "whitespace" else p.read_text()
                 for p in sorted((args.out / "templates").glob("*.jinja"))}
    templates["demo"] = (args.demo / "chat_template.jinja").read_text()
    cases = [case for name, template in templates.items() for case in chat_cases(demo, name, template)]
    dump(args.out / "chat.golden.json", {"templates": templates, "cases": cases})
    print(len(cases), "chat cases,", sum("error" in c for c in cases), "errors")


if __name__ == "__main__":
    main()
