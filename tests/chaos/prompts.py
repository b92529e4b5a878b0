"""The requests of the load, and what each is answered when it is alone."""

import random

import grpc

WORDS = ["river", "mouse", "boat", "king", "garden", "lamp", "bird", "stone"]
BEGINNING = [1, *range(300, 364)]  # ids that several prompts begin with, for the prefix cache
GENERATE, CHAT, ONCE = "Generate", "ChatGenerate", "GenerateOnce"


def story(rng, words):
    return "Tell me a story about " + " and ".join(rng.choices(WORDS, k=words)) + "."


def chat(rng, words, **spec):
    return CHAT, {"messages": [{"role": "user", "content": story(rng, words)}], "spec": spec}


def make(count, seed):
    """`count` requests of all sorts: (method, request). Each has a seed of its own."""
    rng = random.Random(f"prompts {seed}")
    return [_sort(i % 8, rng, str(1000 + i)) for i in range(count)]


def _sort(sort, rng, seed):
    warm = {"temperature": 0.9, "seed": seed}
    to_the_end = {"eosPolicy": "EOS_POLICY_IGNORE_MASK"}
    if sort == 0:
        return chat(rng, 2, sampling={"temperature": 0, "seed": seed}, stop={"maxTokens": 96})
    if sort == 1:
        return chat(rng, 3, sampling=warm, stop={"maxTokens": 80}, eos={"steps": True})
    if sort == 2:
        return chat(rng, 1, sampling=warm, stop={"maxTokens": 250, **to_the_end},
                    output={"logprobs": 2})
    if sort == 3:  # several chunks and blocks, and a short answer
        return chat(rng, 150, sampling=warm, stop={"maxTokens": 24, **to_the_end})
    if sort == 4:
        return chat(rng, 2, sampling=warm, stop={
            "maxTokens": 120, "stop": [" the", "qqq"], "minTokens": 40})
    if sort == 5:
        return chat(rng, 2, stop={"maxTokens": 90, **to_the_end}, sampling={
            **warm, "repetitionPenalty": 1.1, "noRepeatNgramSize": 3, "frequencyPenalty": 0.2})
    if sort == 6:
        ids = BEGINNING + [rng.randrange(300, 2000) for _ in range(20)]
        return GENERATE, {"tokenIds": {"ids": ids}, "spec": {
            "sampling": warm, "stop": {"maxTokens": 400, "eosPolicy": "EOS_POLICY_IGNORE_CONTINUE"},
            "eos": {"steps": True}}}
    return ONCE, {"text": "Once upon a time there was a " + rng.choice(WORDS),
                  "spec": {"sampling": warm, "stop": {"maxTokens": 64}}}


class Answer:
    """What came of an answer so far; equal when all that a client can rely on is equal."""

    def __init__(self):
        self.tokens, self.text, self.logprobs, self.eos, self.end = [], "", [], [], None
        self.started = self.attempts = None

    def add(self, event):
        """Takes one message of a stream in, or the one of GenerateOnce."""
        if event.HasField("started"):
            if self.started is not None:
                raise ValueError("a second Started")
            self.started = (event.started.prompt_tokens, event.started.seed)
        delta = event.output if hasattr(event, "output") else event.delta
        if (delta.token_ids or delta.text) and (self.started is None or self.end is not None):
            raise ValueError("output outside of Started and Final")
        self.tokens += delta.token_ids
        self.text += delta.text
        self.logprobs += [(row.logprob, [(top.token_id, top.logprob) for top in row.top])
                          for row in delta.logprobs]
        self.eos += [(row.step, row.eos_logprob, row.eos_prob_sampling, row.eos_rank, row.entropy,
                      row.top1_prob) for row in delta.eos_steps]
        if event.HasField("final"):
            if self.end is not None:
                raise ValueError("a second Final")
            final = event.final
            self.attempts = final.attempts
            self.end = (final.finish_reason, final.stop_cause, final.stop_token_id,
                        final.stop_string, final.usage.prompt_tokens, final.usage.completion_tokens,
                        final.usage.natural_end_step)

    def parts(self):
        return {"tokens": self.tokens, "logprobs": self.logprobs, "EOS rows": self.eos,
                "text": self.text}

    def differs(self, alone):
        """What is not as in `alone`, the whole answer; "" if nothing.

        Of a broken stream all that came has to be the beginning of the whole.
        """
        if self.started is not None and self.started != alone.started:
            return f"Started: {self.started}, expected {alone.started}"
        for part, value in self.parts().items():
            whole = alone.parts()[part]
            expected = whole if self.end is not None else whole[:len(value)]
            if value != expected:
                return f"{part}: {value}, expected {'' if self.end else 'the beginning of '}{whole}"
        if self.end is not None and self.end != alone.end:
            return f"Final: {self.end}, expected {alone.end}"
        return ""


def open_call(wire, method, request, timeout_s):
    """An iterator over the messages of the answer, with cancel()."""
    path = f"baton.v1.InferenceService/{method}"
    if method != ONCE:
        return wire.stream(path, request, timeout_s)
    return _Once(wire.future(path, request, timeout_s))


class _Once:
    """A unary call in the form of a stream of one message."""

    def __init__(self, future):
        self._future = future
        self.cancel = future.cancel

    def __iter__(self):
        try:
            yield self._future.result()
        except grpc.FutureCancelledError:
            return


def alone(wire, requests):
    """The answer of each request with nothing beside it."""
    answers = []
    for method, request in requests:
        answer = Answer()
        for event in open_call(wire, method, request, 60):
            answer.add(event)
        answers.append(answer)
    return answers
