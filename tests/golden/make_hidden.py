"""Writes what transformers holds inside the models of make_models.py: hidden.json beside golden.json.

Usage: make_hidden.py --models tests/golden/models [NAME…]     (needs torch and transformers)
The format is described in README.md. The models stay as they are.
"""

import argparse
import json
import pathlib

import torch
from transformers.utils import logging

from make_models import load, round_floats


@torch.inference_mode()
def hidden(model, ids, positions):
    """The state behind each layer, divided by its root mean square, and the one that the output projection reads."""
    seen = {}

    def keep(name):
        def hook(_module, _inputs, output):
            seen[name] = output[0] if isinstance(output, tuple) else output
        return hook

    hooks = [layer.register_forward_hook(keep(index)) for index, layer in enumerate(model.model.layers)]
    hooks.append(model.model.norm.register_forward_hook(keep("normed")))
    model(torch.tensor([ids]))
    for hook in hooks:
        hook.remove()
    eps = model.config.rms_norm_eps
    states = []
    for position in positions:
        layers = []
        for index in range(len(model.model.layers)):
            state = seen[index].reshape(-1, seen[index].shape[-1])[position].double()
            layers.append((state / (state.square().mean() + eps).sqrt()).tolist())
        normed = seen["normed"].reshape(-1, seen["normed"].shape[-1])[position]
        states.append({"position": position, "layers": layers, "normed": normed.tolist()})
    return states


def make(directory):
    golden = json.loads((directory / "golden.json").read_text())
    prompt = golden["prompt_ids"]
    ids = prompt + golden["greedy_ids"]
    states = hidden(load(directory), ids, [len(prompt) - 1, len(prompt) + 20])
    (directory / "hidden.json").write_text(json.dumps({"states": round_floats(states)}) + "\n")
    print(f"{directory.name}: {len(states)} positions", flush=True)


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--models", type=pathlib.Path, required=True)
    ap.add_argument("names", nargs="*")
    args = ap.parse_args()
    torch.set_num_threads(1)
    logging.disable_progress_bar()
    for name in args.names or sorted(path.name for path in args.models.iterdir() if path.is_dir()):
        make(args.models / name)


if __name__ == "__main__":
    main()
