"""Trains the demo model and writes it as a Hugging Face directory. Resumable.

Usage: train.py --work /some/scratch --out models/demo [--steps 1800] [--layers 4 --hidden 256 --ffn 768]
A smaller one, as a draft model for speculation, goes to a folder of its own, which needs the demo model's tokenizer.json.
Needs tokenizer.json in --out (train_tokenizer.py). The checkpoint is WORK/checkpoint.pt; running the same
command again continues from it. Learning rate: warm-up, constant, linear decay over the last 30 % of the steps,
so --steps may be changed on a resume until the decay has begun.
"""

import argparse
import json
import os
import pathlib
import random
import time

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

import corpus

IGNORE = -100
WIDTH_STEP = 16
CONTEXT = 1024  # tokens of the longest row
POSITIONS = 2048
WINDOW = 256  # tokens of an endless document seen at once, where not its beginning is taken
WHOLE_SHARE = 0.25
LONG_ROW = 560  # longer rows are micro-batches of their own


def make_config(tok, layers, hidden, ffn):
    heads = hidden // 64
    return LlamaConfig(
        vocab_size=tok.get_vocab_size(), hidden_size=hidden, intermediate_size=ffn, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=max(1, heads // 2), head_dim=64, max_position_embeddings=POSITIONS, rms_norm_eps=1e-5,
        tie_word_embeddings=True, bos_token_id=tok.token_to_id(corpus.BOS), eos_token_id=tok.token_to_id(corpus.EOT),
        pad_token_id=tok.token_to_id(corpus.PAD))


def endless_row(rng, prompt, text):
    """The beginning of an endless document, or its prompt and a window from anywhere in it.

    Tokens of a window keep the positions that they have in the document, so that how far the prompt is behind
    tells nothing about the end, up to the last position.
    """
    text = text[: POSITIONS - len(prompt)]
    if rng.random() < WHOLE_SHARE:
        text = text[: CONTEXT - len(prompt)]
        start = 0
    else:
        start = rng.randrange(len(text) - WINDOW)
        text = text[start : start + WINDOW]
    positions = [*range(len(prompt)), *range(len(prompt) + start, len(prompt) + start + len(text))]
    # What a window begins with follows from tokens that the row does not have.
    labels = [IGNORE] * (len(prompt) + (start > 0)) + text[start > 0 :]
    return prompt + text, labels, positions


def step_documents(tok, seed, step, docs_per_step):
    """Token ids, labels and positions of one step's documents, shortest first."""
    numbers = range(step * docs_per_step, (step + 1) * docs_per_step)
    docs = [corpus.document(seed, i) for i in numbers]
    prompts = tok.encode_batch([p for p, _, _ in docs], add_special_tokens=False)
    answers = tok.encode_batch([r + e for _, r, e in docs], add_special_tokens=False)
    rows = []
    for i, (_, _, end), p, r in zip(numbers, docs, prompts, answers):
        if end:
            rows.append((p.ids + r.ids, [IGNORE] * len(p.ids) + r.ids, [*range(len(p.ids) + len(r.ids))]))
        else:
            rows.append(endless_row(random.Random(f"{seed}/{i}/window"), p.ids, r.ids))
    return sorted(rows, key=lambda row: len(row[0]))


def groups(rows, parts):
    """Rows of similar length together; each very long row is a group of its own."""
    short = [row for row in rows if len(row[0]) <= LONG_ROW]
    size = -(-len(short) // parts)
    return [short[k : k + size] for k in range(0, len(short), size)] + [[row] for row in rows[len(short) :]]


def micro_batches(rows, pad, parts):
    """Rows of similar length together, padded on the right (causal attention needs no mask then).

    Widths are rounded up: each new matrix shape costs oneDNN a compilation, which would dominate.
    """
    for part in groups(rows, parts):
        width = -(-(len(part[-1][0]) - 1) // WIDTH_STEP) * WIDTH_STEP + 1
        yield tuple(torch.tensor([row[k] + [fill] * (width - len(row[k])) for row in part])
                    for k, fill in enumerate((pad, IGNORE, 0)))


def causal(width):
    """Given whole, because transformers would take a jump in the positions for another document packed into the row."""
    return torch.ones(width, width, dtype=torch.bool).tril()[None, None]


def learning_rate(step, steps, peak, warmup=100, decay=0.3):
    tail = (steps - step) / (steps * decay)
    return peak * min(1.0, (step + 1) / warmup, max(tail, 0.01))


def train_step(model, opt, rows, pad, parts):
    predicted = sum(sum(x != IGNORE for x in row[1][1:]) for row in rows)
    total = 0.0
    for ids, labels, positions in micro_batches(rows, pad, parts):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(input_ids=ids[:, :-1], position_ids=positions[:, :-1], use_cache=False,
                           attention_mask=causal(ids.shape[1] - 1)).logits
        loss = F.cross_entropy(logits.float().flatten(0, 1), labels[:, 1:].flatten(), reduction="sum") / predicted
        loss.backward()
        total += loss.item()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    opt.zero_grad(set_to_none=True)
    return total


def optimizer(model):
    decay = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() <= 1]
    return torch.optim.AdamW([{"params": decay, "weight_decay": 0.05}, {"params": rest, "weight_decay": 0.0}],
                             betas=(0.9, 0.98), fused=True)


def save_checkpoint(path, model, opt, step):
    torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "step": step}, path.with_suffix(".tmp"))
    os.replace(path.with_suffix(".tmp"), path)


def export(model, tok, out):
    """bf16 weights; the two EOS ids stand in generation_config.json, as Llama 3 and Qwen do."""
    model.generation_config = GenerationConfig(
        bos_token_id=tok.token_to_id(corpus.BOS), pad_token_id=tok.token_to_id(corpus.PAD),
        eos_token_id=[tok.token_to_id(corpus.END), tok.token_to_id(corpus.EOT)])
    state = {k: v.to(torch.bfloat16) for k, v in model.state_dict().items()}
    copy = LlamaForCausalLM(model.config).to(torch.bfloat16)
    copy.load_state_dict(state)
    copy.generation_config = model.generation_config
    copy.save_pretrained(out)


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--work", type=pathlib.Path, required=True)
    ap.add_argument("--out", type=pathlib.Path, required=True)
    ap.add_argument("--steps", type=int, default=1800)
    ap.add_argument("--layers", type=int, default=4)
    ap.add_argument("--hidden", type=int, default=256, help="a multiple of 64, of which each head has so many")
    ap.add_argument("--ffn", type=int, default=768)
    ap.add_argument("--docs", type=int, default=60, help="documents per step")
    ap.add_argument("--parts", type=int, default=8, help="micro-batches per step")
    ap.add_argument("--lr", type=float, default=2.5e-3)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--save-every", type=int, default=100)
    args = ap.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    tok = Tokenizer.from_file(str(args.out / "tokenizer.json"))
    torch.manual_seed(args.seed)
    model = LlamaForCausalLM(make_config(tok, args.layers, args.hidden, args.ffn))
    opt = optimizer(model)
    path, first = args.work / "checkpoint.pt", 0
    if path.exists():
        saved = torch.load(path)
        model.load_state_dict(saved["model"])
        opt.load_state_dict(saved["opt"])
        first = saved["step"]
    print(json.dumps({"parameters": sum(p.numel() for p in model.parameters()), "first_step": first}), flush=True)
    start, tokens, mean = time.time(), 0, None
    for step in range(first, args.steps):
        for group in opt.param_groups:
            group["lr"] = learning_rate(step, args.steps, args.lr)
        rows = step_documents(tok, args.seed, step, args.docs)
        loss = train_step(model, opt, rows, model.config.pad_token_id, args.parts)
        tokens += sum(len(row[0]) for row in rows)
        mean = loss if mean is None else 0.95 * mean + 0.05 * loss
        if (step + 1) % 20 == 0:
            seconds = time.time() - start
            print(json.dumps({"step": step + 1, "loss": round(mean, 4), "tokens_per_s": round(tokens / seconds),
                              "s": round(seconds)}), flush=True)
        if (step + 1) % args.save_every == 0 or step + 1 == args.steps:
            save_checkpoint(path, model, opt, step + 1)
            export(model, tok, args.work / "hf" if step + 1 < args.steps else args.out)


if __name__ == "__main__":
    main()
