"""A small SentencePiece vocabulary in the manner of Llama 2, and the ids that SentencePiece gives.

    python3 make_pieces.py

Needs sentencepiece 0.2.3; the test that reads the file needs nothing.
"""

import io
import json
import pathlib
import random

import sentencepiece

TEXTS = ["", " ", "a", "Hello world", " leading", "trailing ", "  two  spaces   three    four", "line\nbreaks\n\n\nmany",
         "\ttabs\t\tand\u00a0nbsp", "The quick brown fox jumps over the lazy dog.", "12345 67 8.9", "naïve café Größe",
         "привет мир", "你好，世界", "🙂🙃 emoji 👩‍👩‍👧", "e\u0301 is not é", "▁ is a character", "the▁the", "aaaaaaaaaaaaaaa",
         "thethethethe the the", "x" * 70, "under_scores and-dashes", "\u200bzero\u200bwidth", "mixed 日本 and русский text"]
WORDS = ("the of and to in that it was for on are with as his they be at one have this from or had by hot word but what "
         "some we can out other were all there when up use your how said an each she which do their time if will way about many "
         "then them write would like so these her long make thing see him two has look more day could go come did number sound no "
         "most people my over know water than call first who may down side been now find garden king story river night lamp").split()


def main():
    random.seed(3)
    lines = [" ".join(random.choices(WORDS, k=12)).capitalize() + "." for _ in range(2000)]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, model_type="bpe", vocab_size=600, byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, split_digits=True,
        allow_whitespace_only_pieces=True, character_coverage=1.0, unk_id=0, bos_id=1, eos_id=2, pad_id=-1,
        user_defined_symbols=["<sep>"], minloglevel=2)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    ids = range(processor.get_piece_size())
    kind = lambda i: (2 if processor.is_unknown(i) else 3 if processor.is_control(i) else 6 if processor.is_byte(i)
                      else 4 if processor.id_to_piece(i) == "<sep>" else 1)
    golden = {"tokens": [processor.id_to_piece(i) for i in ids], "scores": [processor.get_score(i) for i in ids],
              "types": [kind(i) for i in ids],
              "cases": [{"text": text, "ids": processor.encode(text), "decoded": processor.decode(processor.encode(text))}
                        for text in TEXTS]}
    path = pathlib.Path(__file__).parent / "gguf_pieces.json"
    path.write_text(json.dumps(golden, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
