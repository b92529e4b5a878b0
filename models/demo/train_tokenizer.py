"""Trains the demo tokenizer: byte-level BPE of exactly 2048 entries, special tokens included.

Usage: train_tokenizer.py --out models/demo [--seed 1] [--documents 20000]
Numbers are not split into digits: 0..130 are single tokens, with and without a leading space.
"""

import argparse
import json
import pathlib

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

import corpus
import words

VOCAB = 2048
TEXT_LIMIT = 2000  # characters, so that the endless documents, which repeat themselves, do not rule the table
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] + eos_token }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


def training_texts(seed, count):
    for i in range(count):
        prompt, text, _ = corpus.document(seed, i)
        for special in corpus.SPECIALS:
            prompt = prompt.replace(special, "\n\n")
        yield prompt
        yield text[:TEXT_LIMIT]
    for n in range(131):
        yield from [str(n), f" {n}"] * 200
    table = " ".join(str(v) for k, v in vars(words).items() if k.isupper())
    for word in sorted({x for x in "".join(c if c.isalpha() else " " for c in table).split()}):
        yield from [f" {word}", word, word.capitalize(), word.lower()] * 2


def train(seed, documents):
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=VOCAB, special_tokens=corpus.SPECIALS, show_progress=False,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    tok.train_from_iterator(training_texts(seed, documents), trainer)
    bos = tok.token_to_id(corpus.BOS)
    tok.post_processor = processors.TemplateProcessing(single=f"{corpus.BOS} $A", pair=f"{corpus.BOS} $A $B",
                                                       special_tokens=[(corpus.BOS, bos)])
    assert tok.get_vocab_size() == VOCAB, tok.get_vocab_size()
    for n in range(131):
        for text in (str(n), f" {n}"):
            assert len(tok.encode(text, add_special_tokens=False).ids) == 1, text
    return tok


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--out", type=pathlib.Path, required=True)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--documents", type=int, default=20000)
    args = ap.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    train(args.seed, args.documents).save(str(args.out / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": corpus.BOS, "eos_token": corpus.END,
              "pad_token": corpus.PAD, "model_max_length": 2048, "clean_up_tokenization_spaces": False}
    (args.out / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")
    (args.out / "chat_template.jinja").write_text(TEMPLATE)


if __name__ == "__main__":
    main()
