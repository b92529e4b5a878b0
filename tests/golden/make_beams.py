"""Writes what transformers' beam search finds with the tiny models of three families.

Usage: make_beams.py --models tests/golden/models --out tests/golden/beams     (needs torch and transformers 4.56.2)
README.md describes the files. A case is kept where fp32 and fp64 find the same answers, so that rounding decides
nothing, and where its EOS ids end beams before the search does.
"""

import argparse
import itertools
import json
import pathlib

import torch
import transformers
from transformers import AutoModelForCausalLM
from transformers.utils import logging

PINNED = "4.56.2"
# A family each, and one with two EOS ids. Their configs have the form that this version of transformers reads.
MODELS = {"llama31_hd128_bf16": 2, "mistral_hd24": 1, "qwen2_hd16": 1}
WIDTHS = ((2, 1), (4, 4))
PENALTIES = (0.6, 1.0)
EARLY = (False, True, "never")
MAX_TOKENS = 20
EOS_IDS = (257, 258, 65, 90, 101, 116, 200, 31, 7, 140, 222, 18)  # some of which a random model draws


def search(model, prompt, eos_ids, width, results, penalty, early):
    out = model.generate(
        torch.tensor([prompt]), num_beams=width, num_return_sequences=results, do_sample=False,
        length_penalty=penalty, early_stopping=early, max_new_tokens=MAX_TOKENS, eos_token_id=eos_ids,
        pad_token_id=319, return_dict_in_generate=True, output_scores=True)
    answers = []
    for ids, score in zip(out.sequences.tolist(), out.sequences_scores.tolist()):
        ids = ids[len(prompt):]
        end = next((i + 1 for i, token in enumerate(ids) if token in eos_ids), len(ids))
        answers.append({"ids": ids[:end], "score": float(f"{score:.7g}")})
    return answers


def ends_in_mid_beam(answers, eos_ids):
    return any(a["ids"][-1] in eos_ids and len(a["ids"]) < MAX_TOKENS for a in answers)


@torch.inference_mode()
def cases_of(folder, num_eos):
    models = [AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager").eval()
              for dtype in (torch.float32, torch.float64)]
    greedy = json.loads((folder / "golden.json").read_text())["greedy_ids"]
    settings = itertools.product(WIDTHS, PENALTIES, EARLY)
    for at, ((width, results), penalty, early) in enumerate(settings):
        # Ids that this model likes, so that beams end; a prompt of another length for each setting.
        prompt = [256] + list(b"The quick brown fox jumps over the lazy dog.")[: 11 + 3 * at]
        for first in itertools.chain(greedy, EOS_IDS):
            eos_ids = sorted({first, *EOS_IDS[:num_eos - 1]})
            if len(eos_ids) != num_eos:
                continue
            found, same = (search(m, prompt, eos_ids, width, results, penalty, early) for m in models)
            agree = [a["ids"] for a in found] == [a["ids"] for a in same]
            if agree and ends_in_mid_beam(found, eos_ids) and min(len(a["ids"]) for a in found) > 2:
                break
        else:
            raise SystemExit(f"{folder.name}: no EOS ids for {width} beams, penalty {penalty}, {early}")
        yield {"prompt_ids": prompt, "eos_ids": eos_ids, "width": width, "results": results,
               "length_penalty": penalty, "early_stopping": str(early).lower(), "max_tokens": MAX_TOKENS,
               "answers": found}


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--models", type=pathlib.Path, required=True)
    ap.add_argument("--out", type=pathlib.Path, required=True)
    args = ap.parse_args()
    if transformers.__version__ != PINNED:
        raise SystemExit(f"transformers is {transformers.__version__}; these files are made with {PINNED}")
    torch.set_num_threads(1)
    logging.disable_progress_bar()
    args.out.mkdir(parents=True, exist_ok=True)
    for name, num_eos in MODELS.items():
        cases = list(cases_of(args.models / name, num_eos))
        lines = ",\n".join(json.dumps(case) for case in cases)
        (args.out / f"{name}.json").write_text(
            f'{{"model": "tests/golden/models/{name}", "transformers": "{PINNED}", "cases": [\n{lines}\n]}}\n')
        lengths = sorted({len(a["ids"]) for case in cases for a in case["answers"]})
        print(f"{name}: {len(cases)} cases, answers of {lengths} tokens", flush=True)


if __name__ == "__main__":
    main()
