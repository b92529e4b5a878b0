"""A small completions server around the continuous batching of Hugging Face transformers.

    PYTHON scripts/transformers_server.py MODEL_DIR [--device cpu|cuda] [--threads N] [--kv-tokens N]

For scripts/compare and tests/gpu/run: it lets the same load generator, over the same protocol, drive
transformers. It speaks as much of OpenAI's API as that needs: GET /v1/models, and POST /v1/completions
with a prompt of token ids, streamed. Prints one line, "ready http://HOST:PORT", when it can be asked. Needs torch and
transformers (5 or newer) in PYTHON; nothing else.
"""

import argparse
import asyncio
import dataclasses
import json
import signal
import sys

import torch
from transformers import AutoModelForCausalLM, GenerationConfig
from transformers.generation import ContinuousBatchingConfig

MAX_BODY_BYTES = 64 << 20
PAGE_TOKENS = 256


def page_option():
    """The name of a page's size, which releases of transformers call differently."""
    known = {field.name for field in dataclasses.fields(ContinuousBatchingConfig)}
    for name in ("page_size", "block_size"):
        if name in known:
            return name
    sys.exit(f"ContinuousBatchingConfig of this transformers has {', '.join(sorted(known))}; expected page_size or "
             "block_size among them, so use another release from 5 on")


class Engine:
    """One model and its batching thread."""

    def __init__(self, options):
        torch.set_num_threads(options.threads)
        self.name = options.model.rstrip("/").rsplit("/", 1)[-1]
        model = AutoModelForCausalLM.from_pretrained(
            options.model, dtype="auto", attn_implementation="sdpa").to(options.device).eval()
        self.default_eos = model.config.eos_token_id
        if self.default_eos is None:
            self.default_eos = -1
        self.vocab_size = model.config.vocab_size
        generation = GenerationConfig(do_sample=False, eos_token_id=self.default_eos)
        batching = ContinuousBatchingConfig(
            num_blocks=-(-options.kv_tokens // PAGE_TOKENS), max_batch_tokens=options.max_batch_tokens,
            max_requests_per_batch=options.max_requests, use_async_batching=False,
            **{page_option(): PAGE_TOKENS})
        self.manager = model.init_continuous_batching(
            generation_config=generation, continuous_batching_config=batching)
        self.manager.start()
        self.count = 0

    def submit(self, ids, max_tokens, ignore_eos, on_output):
        """Queues a request; `on_output` hears every token on the event loop. Returns its name."""
        self.count += 1
        name = f"r{self.count}"
        self.manager.register_result_handler(name, on_output)
        accepted = self.manager.add_request(
            ids, request_id=name, max_new_tokens=max_tokens, streaming=True,
            eos_token_id=-1 if ignore_eos else self.default_eos)
        if accepted is None:
            raise RuntimeError("the batching thread takes no requests any more")
        return name


class BadRequest(Exception):
    pass


def completion_arguments(body, vocab_size):
    """(ids, max_tokens, ignore_eos) of a request's JSON."""
    try:
        request = json.loads(body)
        ids, max_tokens = request["prompt"], request.get("max_tokens", 16)
    except (ValueError, KeyError, TypeError) as error:
        raise BadRequest(f"expected a JSON object with a prompt, found {error!r}") from error
    if not isinstance(ids, list) or not ids or not all(
            isinstance(i, int) and 0 <= i < vocab_size for i in ids):
        raise BadRequest(f"expected a prompt of token ids from 0 to {vocab_size - 1}")
    if not request.get("stream"):
        raise BadRequest("expected \"stream\": true")
    if not isinstance(max_tokens, int) or max_tokens < 1:
        raise BadRequest(f"expected max_tokens from 1, found {max_tokens!r}")
    return ids, max_tokens, bool(request.get("ignore_eos"))


async def read_request(reader):
    """(method, path, body), or None when the client has gone."""
    line = await reader.readline()
    if not line:
        return None
    method, path, _ = line.decode("latin-1").split(" ", 2)
    length = 0
    while True:
        header = (await reader.readline()).decode("latin-1").strip()
        if not header:
            break
        key, _, value = header.partition(":")
        if key.lower() == "content-length":
            length = int(value)
    if length > MAX_BODY_BYTES:
        raise BadRequest(f"expected a body of at most {MAX_BODY_BYTES} bytes, found {length}")
    return method, path, await reader.readexactly(length)


def answer(writer, status, content):
    body = json.dumps(content).encode()
    writer.write(f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n"
                 f"Content-Length: {len(body)}\r\n\r\n".encode() + body)


def send_event(writer, text):
    data = f"data: {text}\n\n".encode()
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


async def complete(engine, writer, body):
    """Streams one completion. Text is left empty: ids are what is measured."""
    ids, max_tokens, ignore_eos = completion_arguments(body, engine.vocab_size)
    outputs = asyncio.Queue()
    name = engine.submit(ids, max_tokens, ignore_eos, outputs.put_nowait)
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                 b"Transfer-Encoding: chunked\r\n\r\n")
    sent = 0
    frame = {"id": name, "object": "text_completion", "model": engine.name}
    while True:
        output = await outputs.get()
        if output.error:
            send_event(writer, json.dumps({"error": {"message": str(output.error)}}))
            break
        total = len(output.generated_tokens)
        for _ in range(sent, total):
            choice = {"index": 0, "text": " t", "finish_reason": None}
            send_event(writer, json.dumps({**frame, "choices": [choice]}))
        sent = total
        if output.is_finished():
            reason = "length" if sent >= max_tokens else "stop"
            choice = {"index": 0, "text": "", "finish_reason": reason}
            send_event(writer, json.dumps({**frame, "choices": [choice]}))
            usage = {"prompt_tokens": len(ids), "completion_tokens": sent,
                     "total_tokens": len(ids) + sent}
            send_event(writer, json.dumps({**frame, "choices": [], "usage": usage}))
            break
        await writer.drain()
    send_event(writer, "[DONE]")
    writer.write(b"0\r\n\r\n")
    await writer.drain()


async def serve_client(engine, reader, writer):
    try:
        while (request := await read_request(reader)) is not None:
            method, path, body = request
            try:
                if (method, path) == ("GET", "/v1/models"):
                    answer(writer, "200 OK", {"object": "list", "data": [{"id": engine.name}]})
                elif (method, path) == ("POST", "/v1/completions"):
                    await complete(engine, writer, body)
                else:
                    answer(writer, "404 Not Found", {"error": {"message": f"no {path}"}})
            except BadRequest as error:
                answer(writer, "400 Bad Request", {"error": {"message": str(error)}})
            await writer.drain()
    except (ConnectionError, asyncio.IncompleteReadError, ValueError, BadRequest):
        pass  # the client has gone, or speaks no HTTP
    finally:
        writer.close()


async def run(options):
    engine = Engine(options)
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    server = await asyncio.start_server(
        lambda reader, writer: serve_client(engine, reader, writer), "127.0.0.1", options.port,
        limit=MAX_BODY_BYTES)
    host, port = server.sockets[0].getsockname()[:2]
    print(f"ready http://{host}:{port}", flush=True)
    await stop.wait()
    server.close()
    engine.manager.stop(block=True, timeout=10)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--kv-tokens", type=int, default=65536)
    parser.add_argument("--max-batch-tokens", type=int, default=2048)
    parser.add_argument("--max-requests", type=int, default=64)
    asyncio.run(run(parser.parse_args()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
