"""The requests of the load, and what each is answered when it is alone."""

import json
import random

import grpc

WORDS = ["river", "mouse", "boat", "king", "garden", "lamp", "bird", "stone"]
BEGINNING = [1, *range(300, 364)]  # ids that several prompts begin with, for the prefix cache
BEAMS = 4  # of a search
GENERATE, CHAT, ONCE = "Generate", "ChatGenerate", "GenerateOnce"


def story(rng, words):
    return "Tell me a story about " + " and ".join(rng.choices(WORDS, k=words)) + "."


def chat(rng, words, **spec):
    return CHAT, {"messages": [{"role": "user", "content": story(rng, words)}], "spec": spec}


def make(count, seed):
    """`count` requests of all sorts: (method, request). Each has a seed of its own."""
    rng = random.Random(f"prompts {seed}")
    return [SORTS[i % len(SORTS)](rng, {"temperature": 0.9, "seed": str(1000 + i)}) for i in range(count)]


TO_THE_END = {"eosPolicy": "EOS_POLICY_IGNORE_MASK"}


def greedy(rng, warm):
    return chat(rng, 2, sampling={**warm, "temperature": 0}, stop={"maxTokens": 96})


def with_eos_steps(rng, warm):
    return chat(rng, 3, sampling=warm, stop={"maxTokens": 80}, eos={"steps": True})


def long_with_logprobs(rng, warm):
    return chat(rng, 1, sampling=warm, stop={"maxTokens": 250, **TO_THE_END}, output={"logprobs": 2})


def long_prompt(rng, warm):
    """Several chunks and blocks, and a short answer."""
    return chat(rng, 150, sampling=warm, stop={"maxTokens": 24, **TO_THE_END})


def with_stop_strings(rng, warm):
    return chat(rng, 2, sampling=warm, stop={"maxTokens": 120, "stop": [" the", "qqq"], "minTokens": 40})


def with_penalties(rng, warm):
    return chat(rng, 2, stop={"maxTokens": 90, **TO_THE_END}, sampling={
        **warm, "repetitionPenalty": 1.1, "noRepeatNgramSize": 3, "frequencyPenalty": 0.2})


def shared_beginning(rng, warm):
    ids = BEGINNING + [rng.randrange(300, 2000) for _ in range(20)]
    return GENERATE, {"tokenIds": {"ids": ids}, "spec": {
        "sampling": warm, "stop": {"maxTokens": 400, "eosPolicy": "EOS_POLICY_IGNORE_CONTINUE"},
        "eos": {"steps": True}}}


def once(rng, warm):
    return ONCE, {"text": "Once upon a time there was a " + rng.choice(WORDS),
                  "spec": {"sampling": warm, "stop": {"maxTokens": 64}}}


def several_answers(rng, warm):
    return chat(rng, 3, sampling={**warm, "n": 3}, stop={"maxTokens": 60})


def best_of_several(rng, warm):
    return chat(rng, 2, sampling={**warm, "n": 2, "bestOf": 4}, stop={"maxTokens": 40})


def beams(rng, warm):
    return chat(rng, 2, sampling={
        "seed": warm["seed"], "beamWidth": BEAMS, "n": 2, "lengthPenalty": 0.6}, stop={"maxTokens": 40})


def guided(rng, warm):
    """Names and punctuation are forced, so that they are fed and not drawn."""
    schema = {"type": "object", "additionalProperties": False, "required": ["hero", "friends"], "properties": {
        "hero": {"enum": rng.sample(WORDS, 4)},
        "friends": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"enum": WORDS}}}}
    return chat(rng, 2, sampling=warm, stop={"maxTokens": 60}, guidedJson=json.dumps(schema))


def repetitive(rng, warm):
    """What the look-up of n-grams foretells well."""
    line = " ".join(rng.sample(WORDS, 4)) + ". "
    return GENERATE, {"text": line * 6, "spec": {
        "sampling": {**warm, "temperature": 0.2}, "stop": {"maxTokens": 120, **TO_THE_END}}}


SORTS = (greedy, with_eos_steps, long_with_logprobs, long_prompt, with_stop_strings, with_penalties,
         shared_beginning, once, several_answers, best_of_several, beams, guided, repetitive)


def in_the_log(request, answer):
    """The tokens whose rows the EOS log has, by index: none of a search, and None where nobody can say, because
    the best of more were given and renumbered.
    """
    sampling = request["spec"]["sampling"]
    if "bestOf" in sampling:
        return None
    return {} if "beamWidth" in sampling else answer.tokens()


class Answer:
    """What came of a request so far; equal when all that a client can rely on is equal.

    A request may have several answers: what follows is by their index.
    """

    def __init__(self):
        self.started = self.attempts = None
        self._by_index = {}

    def add(self, event):
        """Takes one message of a stream in, or the one of GenerateOnce."""
        if event.HasField("started"):
            if self.started is not None:
                raise ValueError("a second Started")
            self.started = (event.started.prompt_tokens, event.started.seed)
        delta = event.output if hasattr(event, "output") else event.delta
        if delta.token_ids or delta.text or delta.logprobs or delta.eos_steps:
            if self.started is None:
                raise ValueError("output before Started")
            self.of(delta.index).add(delta)
        if event.HasField("final"):
            self.of(event.final.index).finish(event.final)
            self.attempts = max(self.attempts or 0, event.final.attempts)

    def of(self, index):
        return self._by_index.setdefault(index, OneOf())

    @property
    def ended(self):
        return bool(self._by_index) and all(one.end is not None for one in self._by_index.values())

    def tokens(self):
        """Of each index."""
        return {index: one.tokens for index, one in self._by_index.items()}

    def count(self):
        return sum(len(one.tokens) for one in self._by_index.values())

    def differs(self, alone, whole):
        """What is not as in `alone`; "" if nothing.

        Of a broken stream (not `whole`) all that came has to be the beginning.
        """
        if self.started is not None and self.started != alone.started:
            return f"Started: {self.started}, expected {alone.started}"
        came, expected = self.tokens().keys(), alone.tokens().keys()
        if came != expected if whole else came - expected:
            return f"answers {sorted(came)}, expected {'' if whole else 'of '}{sorted(expected)}"
        for index, one in self._by_index.items():
            differs = one.differs(alone.of(index))
            if differs:
                return f"answer {index}: {differs}"
        return ""


class OneOf:
    """One answer of a request."""

    def __init__(self):
        self.tokens, self.text, self.logprobs, self.eos, self.end = [], "", [], [], None

    def add(self, delta):
        if self.end is not None:
            raise ValueError("output behind Final")
        self.tokens += delta.token_ids
        self.text += delta.text
        self.logprobs += [(row.logprob, [(top.token_id, top.logprob) for top in row.top])
                          for row in delta.logprobs]
        self.eos += [(row.step, row.eos_logprob, row.eos_prob_sampling, row.eos_rank, row.entropy,
                      row.top1_prob) for row in delta.eos_steps]

    def finish(self, final):
        if self.end is not None:
            raise ValueError("a second Final")
        self.end = (final.finish_reason, final.stop_cause, final.stop_token_id, final.stop_string,
                    final.usage.prompt_tokens, final.usage.completion_tokens, final.usage.natural_end_step,
                    final.seed, final.score)

    def parts(self):
        return {"tokens": self.tokens, "logprobs": self.logprobs, "EOS rows": self.eos,
                "text": self.text}

    def differs(self, alone):
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
