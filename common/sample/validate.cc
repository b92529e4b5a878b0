#include "common/sample/validate.h"

#include <cmath>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/sample/request_limits.h"

namespace baton {
namespace {

absl::Status BadValue(std::string_view field, double have, std::string_view expected) {
  return MakeError(
      absl::StatusCode::kInvalidArgument,
      {.reason = Reason::kInvalidSampling,
       .field = std::string(field),
       .values = {{"have", absl::StrCat(have)}, {"expected", std::string(expected)}}},
      absl::StrCat(std::string(field), " is ", have, "; expected ", std::string(expected)));
}

absl::Status BadToken(std::string_view field, TokenId id, int32_t vocab_size) {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   {.reason = Reason::kInvalidTokenId,
                    .field = std::string(field),
                    .values = {{"have", absl::StrCat(id)}, {"limit", absl::StrCat(vocab_size)}}},
                   absl::StrCat(std::string(field), " names token ", id,
                                "; expected an id from 0 to ", vocab_size - 1));
}

bool InVocab(TokenId id, int32_t vocab_size) { return id >= 0 && id < vocab_size; }

// A NaN fails every comparison, so each test is written as what must hold.
absl::Status CheckRanges(const SamplingParams& p) {
  const bool temperature = p.temperature >= 0 && std::isfinite(p.temperature);
  if (!temperature) return BadValue("temperature", p.temperature, "a finite number >= 0");
  if (p.top_k < 0) return BadValue("top_k", p.top_k, "0 (off) or more");
  if (!(p.top_p > 0 && p.top_p <= 1)) return BadValue("top_p", p.top_p, "a number in (0, 1]");
  if (!(p.min_p >= 0 && p.min_p <= 1)) return BadValue("min_p", p.min_p, "a number in [0, 1]");
  const bool repetition = p.repetition_penalty > 0 && std::isfinite(p.repetition_penalty);
  if (!repetition) {
    return BadValue("repetition_penalty", p.repetition_penalty, "a finite number > 0");
  }
  if (!std::isfinite(p.presence_penalty)) {
    return BadValue("presence_penalty", p.presence_penalty, "a finite number");
  }
  if (!std::isfinite(p.frequency_penalty)) {
    return BadValue("frequency_penalty", p.frequency_penalty, "a finite number");
  }
  if (p.no_repeat_ngram_size < 0) {
    return BadValue("no_repeat_ngram_size", p.no_repeat_ngram_size, "0 (off) or more");
  }
  if (p.num_top_logprobs < 0 || p.num_top_logprobs > kMaxTopLogprobs) {
    return BadValue("logprobs", p.num_top_logprobs, absl::StrCat("0 to ", kMaxTopLogprobs));
  }
  return absl::OkStatus();
}

absl::Status CheckLengthControl(const StopParams& params) {
  if (!params.length_control) return absl::OkStatus();
  const LengthControl& control = *params.length_control;
  if (params.eos_policy != EosPolicy::kHonor) {
    return InvalidArgument(Reason::kConflictingOptions, "length_control",
                           "length control moves the end of an answer, ignoring EOS runs it to "
                           "max_tokens; expected one of the two");
  }
  if (control.target < 1) {
    return BadValue("length_control.target", control.target, "at least 1 token");
  }
  if (!(control.strength > 0 && control.strength <= kMaxLengthStrength)) {
    return BadValue("length_control.strength", control.strength,
                    absl::StrCat("a number above 0, at most ", kMaxLengthStrength));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status TooLong(std::string_view field, std::string_view part, int64_t tokens, int64_t limit) {
  return MakeError(
      absl::StatusCode::kInvalidArgument,
      {.reason = Reason::kTooLong,
       .field = std::string(field),
       .values = {{"have", absl::StrCat(tokens)}, {"limit", absl::StrCat(limit)}}},
      absl::StrCat("the request is too long: ", tokens, " tokens of ", std::string(part),
                   "; the limit is ", limit, "; shorten the prompt or lower max_tokens"));
}

absl::Status CheckTokenIds(std::string_view field, std::span<const TokenId> ids,
                           int32_t vocab_size) {
  for (const TokenId id : ids) {
    if (!InVocab(id, vocab_size)) return BadToken(field, id, vocab_size);
  }
  return absl::OkStatus();
}

absl::Status ValidateSampling(const SamplingParams& params, int32_t vocab_size) {
  BATON_RETURN_IF_ERROR(CheckRanges(params));
  BATON_RETURN_IF_ERROR(CheckLimit(RequestLimit::kNgram, params.no_repeat_ngram_size));
  BATON_RETURN_IF_ERROR(CheckLimit(RequestLimit::kLogitBiases, std::ssize(params.logit_bias)));
  for (const auto& [id, bias] : params.logit_bias) {
    if (!InVocab(id, vocab_size)) return BadToken("logit_bias", id, vocab_size);
    if (!std::isfinite(bias)) return BadValue("logit_bias", bias, "finite numbers");
  }
  return absl::OkStatus();
}

absl::Status ValidateStop(const StopParams& params, int32_t vocab_size) {
  if (params.max_tokens < 0) {
    return InvalidArgument(Reason::kInvalidMaxTokens, "max_tokens",
                           absl::StrCat("max_tokens is ", params.max_tokens, "; expected >= 1"));
  }
  if (params.min_tokens < 0) {
    return InvalidArgument(Reason::kInvalidMaxTokens, "min_tokens",
                           absl::StrCat("min_tokens is ", params.min_tokens, "; expected >= 0"));
  }
  if (params.max_tokens > 0 && params.min_tokens > params.max_tokens) {
    return InvalidArgument(Reason::kConflictingOptions, "min_tokens",
                           absl::StrCat("min_tokens ", params.min_tokens, " is above max_tokens ",
                                        params.max_tokens, "; lower one or raise the other"));
  }
  BATON_RETURN_IF_ERROR(CheckLimit(RequestLimit::kStopTokenIds, std::ssize(params.stop_token_ids)));
  BATON_RETURN_IF_ERROR(CheckTokenIds("stop_token_ids", params.stop_token_ids, vocab_size));
  if (params.eos_policy != EosPolicy::kHonor && !params.stop_token_ids.empty()) {
    return InvalidArgument(Reason::kConflictingOptions, "stop_token_ids",
                           "stop token ids end a request, ignoring EOS runs it to max_tokens; "
                           "expected one of the two");
  }
  return CheckLengthControl(params);
}

}  // namespace baton
