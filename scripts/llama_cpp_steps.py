"""Times the steps of llama.cpp in llama-cpp-python, to compare with `bench_kernels --only steps`.

    PYTHON scripts/llama_cpp_steps.py MODEL.gguf [--threads 2] [--batches 1,8,32] [--context 256]
           [--quantize KIND=OUT.gguf,...]

Prints tokens per second: of a prompt of 512 tokens and, where --context is more, of the last 512 of a
prompt that long, medians of --rounds; and of decoding behind --context tokens, medians of steps. Then
the memory of the process. PYTHON is one with llama-cpp-python; build that natively
(CMAKE_ARGS=-DGGML_NATIVE=ON). With --quantize it writes the model in other kinds instead, as
llama-quantize does: F16, Q8_0, Q4_0, Q4_K_M, Q5_0, Q5_K_M, Q6_K.
"""

import argparse
import ctypes
import statistics
import sys
import time

import llama_cpp as api

KINDS = {kind: getattr(api, f"LLAMA_FTYPE_MOSTLY_{kind}")
         for kind in ("F16", "Q8_0", "Q4_0", "Q4_K_M", "Q5_0", "Q5_K_M", "Q6_K")}
PROMPT, STEPS = 512, 16


def quantize(path, wanted, threads):
    for item in wanted.split(","):
        kind, out = item.split("=", 1)
        if kind not in KINDS:
            sys.exit(f"kind '{kind}'; expected one of {', '.join(KINDS)}")
        params = api.llama_model_quantize_default_params()
        params.ftype = KINDS[kind]
        params.nthread = threads
        if api.llama_model_quantize(path.encode(), out.encode(), ctypes.byref(params)) != 0:
            sys.exit(f"llama.cpp cannot write {path} as {kind}")


def resident_mb():
    with open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1000
    return 0


class Steps:
    def __init__(self, path, threads, sequences, context_tokens):
        api.llama_backend_init()
        params = api.llama_model_default_params()
        params.use_mmap = False
        self.model = api.llama_model_load_from_file(path.encode(), params)
        if not self.model:
            sys.exit(f"llama.cpp does not load {path}")
        self.loaded_mb = resident_mb()
        context = api.llama_context_default_params()
        self.context_tokens = context_tokens
        context.n_ctx = sequences * (max(PROMPT, context_tokens) + 128)
        context.n_batch = context.n_ubatch = PROMPT
        context.n_seq_max = sequences
        context.n_threads = context.n_threads_batch = threads
        context.kv_unified = False
        self.context = api.llama_init_from_model(self.model, context)
        if not self.context:
            sys.exit(f"llama.cpp makes no context of {context.n_ctx} tokens for {sequences} sequences; "
                     "expected enough memory and no more sequences than it knows: take smaller --batches "
                     "or a smaller --context")
        self.memory = api.llama_get_memory(self.context)
        self.batch = api.llama_batch_init(PROMPT, 0, 1)
        self.vocabulary = api.llama_vocab_n_tokens(api.llama_model_get_vocab(self.model))

    def clear(self):
        api.llama_memory_clear(self.memory, False)

    def run(self, rows):
        """One step of (sequence, position, draws) each; returns its seconds."""
        batch = self.batch
        batch.n_tokens = len(rows)
        for i, (sequence, position, draws) in enumerate(rows):
            batch.token[i] = (17 * position + 131 * sequence + 5) % (self.vocabulary - 300) + 280
            batch.pos[i] = position
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = sequence
            batch.logits[i] = draws
        begin = time.perf_counter()
        if api.llama_decode(self.context, batch) != 0:
            sys.exit(f"llama.cpp fails a step of {len(rows)} rows")
        api.llama_synchronize(self.context)
        return time.perf_counter() - begin

    def prompt(self, tokens):
        """Runs a prompt in chunks; returns the seconds of the last one."""
        self.clear()
        seconds = 0
        for begin in range(0, tokens, PROMPT):
            end = min(begin + PROMPT, tokens)
            seconds = self.run([(0, i, i == tokens - 1) for i in range(begin, end)])
        return seconds

    def decode(self, batch):
        self.prompt(self.context_tokens)
        for sequence in range(1, batch):
            api.llama_memory_seq_cp(self.memory, 0, sequence, -1, -1)
        seconds = [self.run([(s, self.context_tokens + step, True) for s in range(batch)])
                   for step in range(STEPS)]
        return batch / statistics.median(seconds[2:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batches", default="1,8,32")
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quantize")
    options = parser.parse_args()
    if options.quantize:
        quantize(options.model, options.quantize, options.threads)
        return
    batches = [int(batch) for batch in options.batches.split(",")]
    if not 1 <= min(batches) <= max(batches) <= PROMPT:
        sys.exit(f"--batches {options.batches}; expected 1 to {PROMPT}, as many rows as a step has room for")
    if options.context < 1 or options.context % PROMPT not in (0, options.context):
        sys.exit(f"--context {options.context}; expected up to {PROMPT}, or a multiple of it")
    steps = Steps(options.model, options.threads, max(batches), options.context)
    steps.prompt(PROMPT)
    for tokens in sorted({PROMPT, max(PROMPT, options.context)}):
        rate = PROMPT / statistics.median(steps.prompt(tokens) for _ in range(options.rounds))
        name = f"prefill of {PROMPT}" if tokens == PROMPT else f"prefill, last {PROMPT} of {tokens}"
        print(f"{name}: {rate:.1f} tokens/s")
    for batch in batches:
        print(f"decode, batch {batch}: {steps.decode(batch):.1f} tokens/s")
    print(f"memory: {steps.loaded_mb:.0f} MB loaded, {resident_mb():.0f} MB after")


if __name__ == "__main__":
    main()
