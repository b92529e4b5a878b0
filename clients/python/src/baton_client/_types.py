"""What goes in and what comes out, as plain typed values."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

EarlyStopping = bool | Literal["never"]
EosPolicy = Literal["honor", "continue", "mask"]
FinishReason = Literal["stop_eos", "stop_token", "stop_string", "stop_grammar", "length", "runaway"]
StopCause = Literal["none", "eos", "token", "string", "grammar", "runaway"]


class Message(TypedDict):
    """One message of a conversation."""

    role: str
    content: str


@dataclasses.dataclass(frozen=True)
class LengthControl:
    """Pulls the end of an answer towards `target` tokens, the more the higher `strength` (0 to 100) is."""

    target: int
    strength: float


class Options(TypedDict, total=False):
    """What a request may say beside its prompt. What is left out takes the model's, then Baton's default.

    The server checks the values; proto/baton/v1/inference.proto has their ranges.
    """

    model: str
    # A kind of task ("qa", "code", "creative", "dialogue") whose sampling stands for what is left out here.
    preset: str
    max_tokens: int
    min_tokens: int
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    no_repeat_ngram_size: int
    seed: int
    # So many answers, 1 to 64, each drawn by itself. Pieces and Finals say which they belong to.
    n: int
    # So many answers are drawn, and the best n of them given, by the mean logprob of their tokens.
    best_of: int
    # The n best answers that a search with so many beams finds; nothing is drawn, and all come at the end.
    beam_width: int
    length_penalty: float
    early_stopping: EarlyStopping
    logit_bias: Mapping[int, float]
    stop: str | Sequence[str]
    stop_token_ids: Sequence[int]
    include_stop_in_output: bool
    # What happens when the model wants to end: the answer ends, or runs to max_tokens.
    eos: EosPolicy
    length_control: LengthControl
    # What the answer has to follow, at most one of these: a JSON schema (or its text), a whole match of a regular
    # expression, a grammar, one of some strings, any JSON object.
    guided_json: str | Mapping[str, Any]
    guided_regex: str
    guided_grammar: str
    guided_choice: Sequence[str]
    json_object: bool
    # So many alternatives, 0 to 20, beside the logprob of each token.
    logprobs: int
    skip_special_tokens: bool
    # An EosStep for each token.
    eos_steps: bool
    # The products of the workers' probe in each EosStep.
    probe: bool
    # A Prediction behind tokens: as often as there is one, or each so many tokens.
    predict: bool
    predict_every: int
    request_id: str
    tag: str
    cache_salt: str
    # Seconds that the whole answer may take, repeated calls included.
    timeout_s: float


@dataclasses.dataclass(frozen=True)
class TokenLogprob:
    """A token that could have been drawn, with the natural logarithm of its probability."""

    token_id: int
    logprob: float
    text: str
    # The token's bytes where `text` does not have them as they are.
    raw_bytes: bytes


@dataclasses.dataclass(frozen=True)
class Logprobs:
    """How likely the drawn token was in the raw distribution, and what was most likely there."""

    logprob: float
    text: str
    raw_bytes: bytes
    top: tuple[TokenLogprob, ...]


@dataclasses.dataclass(frozen=True)
class EosStep:
    """What the distribution that a token was drawn from says about ending; docs/eos.md explains the names."""

    # The number of tokens generated up to and including this one.
    step: int
    # Of the EOS ids in the raw distribution; None if the model has no EOS.
    eos_logprob: float | None
    eos_prob: float | None
    # The chance that the request ends here, by the whole stop set and after all sampling parameters.
    eos_prob_sampling: float
    # The place of the best EOS id, 1 being the most likely; 0 if the model has no EOS.
    eos_rank: int
    # Nats.
    entropy: float
    top1_prob: float
    # Unix seconds.
    timestamp: float
    # Empty without a probe.
    probe: tuple[float, ...]


@dataclasses.dataclass(frozen=True)
class Prediction:
    """When the answer is expected to end by itself, seen from `at_step` tokens; the end's token counts."""

    at_step: int
    expected_remaining: float
    p50: float
    p90: float
    # The chance of an end within so many tokens, by their number: 1, 4, 16, 64 and 256.
    within: Mapping[int, float]
    predictor: str


@dataclasses.dataclass(frozen=True)
class Started:
    """The request is valid, and this is what the server made of it."""

    request_id: str
    model: str
    prompt_tokens: int
    # Sent again, it gives the same tokens.
    seed: int
    # How tokens are drawn, by the names of Options, after the request, its preset, the model and the defaults.
    sampling: Mapping[str, float]


@dataclasses.dataclass(frozen=True)
class Piece:
    """What is new of an answer: text and tokens, or a prediction.

    Text lags behind tokens while a character, or what may become a stop string, is incomplete.
    """

    text: str
    token_ids: tuple[int, ...] = ()
    # One for each token, if they were asked for.
    logprobs: tuple[Logprobs, ...] = ()
    eos_steps: tuple[EosStep, ...] = ()
    prediction: Prediction | None = None
    # Which of several answers it belongs to.
    index: int = 0


@dataclasses.dataclass(frozen=True)
class Usage:
    """Tokens of an answer, or of a request."""

    # Of several answers, the prompt counts with the first.
    prompt_tokens: int
    # Of the prompt, those whose KV was found in a prefix cache.
    cached_tokens: int
    # EOS included.
    completion_tokens: int
    # Where a request that ignores EOS would have ended by itself.
    natural_end_step: int | None


@dataclasses.dataclass(frozen=True)
class Timings:
    """Where the time of a request went, in milliseconds, as the router saw it."""

    queue_ms: float
    prefill_ms: float
    kv_transfer_ms: float
    ttft_ms: float
    total_ms: float


@dataclasses.dataclass(frozen=True)
class Final:
    """How an answer ended."""

    # A reason, or a cause, that only a newer router has is "unknown_" and its number.
    finish_reason: FinishReason
    stop_cause: StopCause
    # The id or the string that ended it; None after a length or a runaway.
    stop_match: int | str | None
    usage: Usage
    timings: Timings
    # How often workers began this request, and how often this client sent it.
    attempts: int
    calls: int
    # Addresses of those of the last attempt; prefill is empty if the decode worker did both.
    prefill_worker: str
    decode_worker: str
    # Which of several answers ended.
    index: int = 0
    # Of this answer, where several were drawn: sent without n and best_of, it gives this answer alone.
    seed: int | None = None
    # What best_of or a beam search ranked it by.
    score: float | None = None
    # In the one that came last, where several answers were drawn or searched for: what all of them took.
    total_usage: Usage | None = None


@dataclasses.dataclass(frozen=True)
class Completion:
    """A whole answer."""

    text: str
    token_ids: tuple[int, ...]
    logprobs: tuple[Logprobs, ...]
    eos_steps: tuple[EosStep, ...]
    predictions: tuple[Prediction, ...]
    started: Started
    final: Final
    # The other answers of a request for several, in the order of their index.
    further: tuple[Completion, ...] = ()


@dataclasses.dataclass(frozen=True)
class ModelInfo:
    """A served model; proto/baton/v1/model.proto says more about each."""

    name: str
    architecture: str
    max_model_len: int
    vocab_size: int
    compute_dtype: str
    layers: int
    kv_block_size: int
    kv_blocks: int
    # By id, the token as the vocabulary writes it.
    eos_tokens: Mapping[int, str]
    chat_template_present: bool
    fingerprint: str
