"""Which tokens end a sentence or a line, by their bytes: the rule that the service goes by, too."""

import json
import os
import re

import numpy as np

from baton_analysis.errors import InputError

LINE, SENTENCE = 1, 2  # flags
_CLOSING = tuple(character.encode() for character in " \t\r\n\"')]}*_`»”’")
_ENDS = tuple(character.encode() for character in ".!?…。！？")
_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>$")


def flags_of(token: bytes) -> int:
    flags = LINE if b"\n" in token else 0
    rest = token
    while rest.endswith(_CLOSING):
        rest = rest[:-max(len(mark) for mark in _CLOSING if rest.endswith(mark))]
    return flags | (SENTENCE if rest.endswith(_ENDS) else 0)


def flags_by_id(model_dir: str) -> np.ndarray:
    """Of each id of MODEL/tokenizer.json its flags. Special tokens have none."""
    path = os.path.join(model_dir, "tokenizer.json")
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        added = {entry["id"]: entry for entry in content.get("added_tokens", ())}
        vocabulary = _vocabulary(content["model"]["vocab"])
        to_bytes = _byte_level if _is_byte_level(content) else _plain
        flags = np.zeros(1 + max([*vocabulary.values(), *added]), dtype=np.uint8)
        for text, number in vocabulary.items():
            flags[number] = flags_of(to_bytes(text))
        for number, entry in added.items():
            flags[number] = 0 if entry.get("special") else flags_of(entry["content"].encode())
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} cannot be read: {error!r}; give the folder of the model with its "
                         "tokenizer.json") from error
    return flags


def _vocabulary(vocab) -> dict[str, int]:
    if isinstance(vocab, dict):
        return vocab
    return {entry[0]: number for number, entry in enumerate(vocab)}  # with scores


def _is_byte_level(content) -> bool:
    return '"ByteLevel"' in json.dumps([content.get("pre_tokenizer"), content.get("decoder")])


def _byte_level(text: str) -> bytes:
    """Each character stands for a byte, as GPT-2's vocabulary has it."""
    try:
        return bytes(_BYTES[character] for character in text)
    except KeyError:
        return text.encode()


def _plain(text: str) -> bytes:
    byte = _BYTE_TOKEN.match(text)
    return bytes([int(byte[1], 16)]) if byte else text.replace("▁", " ").encode()


def _byte_characters() -> dict[str, int]:
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {
        chr(byte): byte for byte in shown
    } | {
        chr(256 + place): byte for place, byte in enumerate(hidden)
    }


_BYTES = _byte_characters()
