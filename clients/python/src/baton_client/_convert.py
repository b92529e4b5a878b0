"""Between the values of this package and the messages of the protos."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from baton_client import _types as types
from baton_client._stubs import inference_pb2 as pb
from baton_client._stubs import model_pb2

EOS_POLICIES = {
    "honor": pb.EOS_POLICY_HONOR,
    "continue": pb.EOS_POLICY_IGNORE_CONTINUE,
    "mask": pb.EOS_POLICY_IGNORE_MASK,
}
EARLY_STOPPING = {
    False: pb.EARLY_STOPPING_FALSE,
    True: pb.EARLY_STOPPING_TRUE,
    "never": pb.EARLY_STOPPING_NEVER,
}
_SPEC = ("request_id", "model", "cache_salt", "tag", "preset", "guided_regex", "guided_grammar", "guided_choice",
         "json_object")
_SAMPLING = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty",
             "frequency_penalty", "no_repeat_ngram_size", "seed", "n", "best_of", "beam_width",
             "length_penalty", "logit_bias")
_STOP = ("max_tokens", "min_tokens", "stop_token_ids", "include_stop_in_output")
_OUTPUT = ("logprobs", "skip_special_tokens")
_EOS = {"eos_steps": "steps", "probe": "probe", "predict": "predict", "predict_every": "predict_every"}


def spec_of(options: Mapping[str, Any]) -> pb.GenerationSpec:
    """The spec of a request. An option that there is not is a TypeError, as a wrong keyword is."""
    given = {name: value for name, value in options.items() if value is not None}
    given.pop("timeout_s", None)

    def take(names: Iterable[str]) -> dict[str, Any]:
        return {name: given.pop(name) for name in names if name in given}

    if isinstance(given.get("guided_choice"), str):
        raise TypeError(f"guided_choice is {given['guided_choice']!r}: expected a sequence of texts to choose from")
    spec = pb.GenerationSpec(**take(_SPEC))
    spec.sampling.CopyFrom(pb.SamplingParams(**take(_SAMPLING)))
    spec.stop.CopyFrom(pb.StopParams(**take(_STOP)))
    spec.output.CopyFrom(pb.OutputOptions(**take(_OUTPUT)))
    spec.eos.CopyFrom(pb.EosOptions(**{_EOS[name]: value for name, value in take(_EOS).items()}))
    if "stop" in given:
        stop = given.pop("stop")
        spec.stop.stop.extend([stop] if isinstance(stop, str) else stop)
    if "guided_json" in given:
        schema = given.pop("guided_json")
        spec.guided_json = schema if isinstance(schema, str) else json.dumps(schema, default=_dict_of)
    if "eos" in given:
        policy = given.pop("eos")
        if policy not in EOS_POLICIES:
            raise ValueError(f"eos is {policy!r}: expected one of {', '.join(EOS_POLICIES)}")
        spec.stop.eos_policy = EOS_POLICIES[policy]
    if "early_stopping" in given:
        early = given.pop("early_stopping")
        if early not in EARLY_STOPPING:
            raise ValueError(f"early_stopping is {early!r}: expected False, True or 'never'")
        spec.sampling.early_stopping = EARLY_STOPPING[early]
    if "length_control" in given:
        control = given.pop("length_control")
        spec.stop.length_control.target = control.target
        spec.stop.length_control.strength = control.strength
    if given:
        raise TypeError(f"no such option: {', '.join(sorted(given))}; baton_client.Options lists them")
    return spec


def _dict_of(value: Any) -> dict[Any, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"guided_json has a {type(value).__name__}: expected what JSON has")
    return dict(value)


def _checked_ids(ids: Sequence[int]) -> Sequence[int]:
    # Bytes are a sequence of numbers, too, but whoever has some has a text.
    if isinstance(ids, (bytes, bytearray)):
        raise TypeError(f"found {type(ids).__name__}: expected token ids or a str; decode() bytes of a text, "
                        "or give list() of those that are ids")
    return ids


def generate_request(prompt: str | Sequence[int], options: Mapping[str, Any]) -> pb.GenerateRequest:
    if isinstance(prompt, str):
        return pb.GenerateRequest(spec=spec_of(options), text=prompt)
    return pb.GenerateRequest(spec=spec_of(options), token_ids=pb.TokenIds(ids=_checked_ids(prompt)))


def chat_request(messages: Sequence[types.Message], options: Mapping[str, Any]) -> pb.ChatGenerateRequest:
    said = [pb.ChatMessage(role=message["role"], content=message["content"]) for message in messages]
    return pb.ChatGenerateRequest(spec=spec_of(options), messages=said)


def tokenize_request(text: str, model: str, add_special_tokens: bool) -> pb.TokenizeRequest:
    return pb.TokenizeRequest(text=text, model=model, add_special_tokens=add_special_tokens)


def detokenize_request(ids: Sequence[int], model: str, skip_special_tokens: bool) -> pb.DetokenizeRequest:
    return pb.DetokenizeRequest(token_ids=_checked_ids(ids), model=model, skip_special_tokens=skip_special_tokens)


def started_of(message: pb.Started) -> types.Started:
    # They travel in 32 bits, which keep seven digits.
    numbers = {name: float(f"{value:.7g}") if isinstance(value, float) else value
               for name, value in ((field.name, value) for field, value in message.sampling.ListFields())}
    return types.Started(message.request_id, message.model, message.prompt_tokens, message.seed, numbers)


def piece_of(delta: pb.Delta) -> types.Piece:
    return types.Piece(delta.text, tuple(delta.token_ids),
                       tuple(_logprobs_of(row) for row in delta.logprobs),
                       tuple(_eos_step_of(row) for row in delta.eos_steps), index=delta.index)


def _logprobs_of(row: pb.TokenLogprobs) -> types.Logprobs:
    top = (types.TokenLogprob(t.token_id, t.logprob, t.text, t.raw_bytes) for t in row.top)
    return types.Logprobs(row.logprob, row.text, row.raw_bytes, tuple(top))


def _eos_step_of(row: pb.EosStep) -> types.EosStep:
    return types.EosStep(
        step=row.step,
        eos_logprob=row.eos_logprob if row.HasField("eos_logprob") else None,
        eos_prob=row.eos_prob if row.HasField("eos_prob") else None,
        eos_prob_sampling=row.eos_prob_sampling, eos_rank=row.eos_rank, entropy=row.entropy,
        top1_prob=row.top1_prob, timestamp=row.timestamp, probe=tuple(row.probe))


def prediction_of(message: pb.EndPrediction) -> types.Prediction:
    within = {row.horizon: row.probability for row in message.within}
    return types.Prediction(message.at_step, message.expected_remaining, message.p50, message.p90,
                            within, message.predictor)


def _usage_of(usage: pb.Usage) -> types.Usage:
    return types.Usage(usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens,
                       usage.natural_end_step if usage.HasField("natural_end_step") else None)


def _name_of(enum: Any, value: int, prefix: str) -> str:
    """The name of an enum's value. A router that is newer than this package may have values of its own."""
    if value not in enum.values():
        return f"unknown_{value}"
    name: str = enum.Name(value)
    return name.removeprefix(prefix).lower()


def final_of(message: pb.Final, calls: int) -> types.Final:
    match = message.WhichOneof("stop_match")
    timings = message.timings
    reason = _name_of(pb.FinishReason, message.finish_reason, "FINISH_REASON_")
    cause = _name_of(pb.StopCause, message.stop_cause, "STOP_CAUSE_")
    return types.Final(
        finish_reason=cast(types.FinishReason, reason), stop_cause=cast(types.StopCause, cause),
        stop_match=getattr(message, match) if match else None,
        usage=_usage_of(message.usage),
        timings=types.Timings(timings.queue_ms, timings.prefill_ms, timings.kv_transfer_ms,
                              timings.ttft_ms, timings.total_ms),
        attempts=message.attempts, calls=calls,
        prefill_worker=message.prefill_worker, decode_worker=message.decode_worker, index=message.index,
        seed=message.seed if message.HasField("seed") else None,
        score=message.score if message.HasField("score") else None,
        total_usage=_usage_of(message.total_usage) if message.HasField("total_usage") else None)


def model_info_of(message: model_pb2.GetModelInfoResponse) -> types.ModelInfo:
    return types.ModelInfo(
        message.name, message.architecture, message.max_model_len, message.vocab_size,
        message.compute_dtype, message.layers, message.kv_block_size, message.kv_blocks,
        {token.id: token.text for token in message.eos_tokens}, message.chat_template_present,
        message.fingerprint)
