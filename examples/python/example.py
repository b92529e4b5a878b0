"""Baton from Python, by the package of clients/python: python example.py --help"""

import argparse
import sys

from baton_client import BatonError, Client, Retry, Tls

PROMPT = "Once upon a time"


def stream(client):
    """Text as it comes. Calls that fail are repeated by the client, and go on where the text broke off."""
    answer = client.generate(PROMPT, max_tokens=24, temperature=0)
    show(answer)


def chat(client):
    """A conversation, to which the server applies the model's template."""
    show(client.chat([{"role": "user", "content": "Tell me a story about a fox."}], max_tokens=24, temperature=0))


def show(answer):
    for piece in answer:
        print(piece.text, end="", flush=True)
    final = answer.final
    print(f"\n[{final.finish_reason}, {final.usage.completion_tokens} tokens, calls {final.calls}]")


def cancel(client):
    """Leaving the block ends the request at the server, too."""
    tokens = 0
    with client.generate(PROMPT, max_tokens=1000, eos="mask") as answer:
        for piece in answer:
            tokens += len(piece.token_ids)
            if tokens >= 5:
                break
    print(f"cancelled after {tokens} tokens")


def deadline(client):
    """An answer that takes too long."""
    try:
        client.generate(PROMPT, max_tokens=1000, eos="mask", timeout_s=0.02).read()
    except BatonError as error:
        print(error.code)


def error(client):
    """What the server says of a request that is wrong."""
    try:
        client.generate(PROMPT, temperature=-1).read()
    except BatonError as refusal:
        print(f"{refusal.code} {refusal.reason} at {refusal.field}")


def ends(client):
    """How likely each token was to be the last, and how many are expected to remain."""
    answer = client.generate(PROMPT, max_tokens=8, temperature=0, eos="mask", eos_steps=True, predict=True)
    for piece in answer:
        for step in piece.eos_steps:
            if step.eos_prob is not None:  # A model without end tokens has none.
                print(f"step {step.step}: eos_prob {step.eos_prob:.6f}")
        if piece.prediction:
            print(f"after {piece.prediction.at_step}: about {piece.prediction.expected_remaining:.1f} remain")


SCENES = {scene.__name__: scene for scene in (stream, chat, cancel, deadline, error, ends)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", default="127.0.0.1:50051")
    parser.add_argument("--only", choices=SCENES, help="one scene; without it, all")
    parser.add_argument("--ca", help="PEM file: the authority of the router's certificate; turns TLS on")
    parser.add_argument("--cert", help="PEM file: the client's certificate")
    parser.add_argument("--key", help="PEM file: its key")
    parser.add_argument("--server-name", help="the name that the router's certificate has, as router")
    parser.add_argument("--api-key")
    parser.add_argument("--retry-for", type=float, default=180, help="seconds")
    flags = parser.parse_args()
    if not flags.ca and (flags.cert or flags.key or flags.server_name):
        parser.error("--cert, --key and --server-name are for TLS, which --ca turns on")
    tls = Tls(flags.ca, flags.cert, flags.key, flags.server_name) if flags.ca else None
    try:
        with Client(flags.server, tls=tls, api_key=flags.api_key, retry=Retry(flags.retry_for)) as client:
            for name, scene in SCENES.items():
                if flags.only in (None, name):
                    print(f"== {name}")
                    scene(client)
    except (BatonError, OSError, ValueError) as failure:
        sys.exit(f"failed: {failure}")


if __name__ == "__main__":
    main()
