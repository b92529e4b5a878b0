#include "common/sched/limits.h"

#include <algorithm>
#include <span>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/sample/validate.h"

namespace baton {
namespace {

// Tokens of prompt and output that this engine may have to hold. kPrefill holds no output, and its
// request runs on in a worker whose pool may differ.
int64_t TokensThatFit(const SequenceSpec& spec, const SequenceLimits& limits) {
  if (spec.kind == SequenceKind::kPrefill) return limits.max_model_len;
  return std::min(limits.max_model_len, limits.pool_tokens);
}

absl::Status TooLong(std::string_view what, int64_t have, int64_t limit) {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   {.reason = Reason::kTooLong,
                    .field = "prompt",
                    .values = {{"have", absl::StrCat(have)}, {"limit", absl::StrCat(limit)}}},
                   absl::StrCat(std::string(what), " need ", have, " tokens, this worker holds ",
                                limit, "; shorten the prompt or lower max_tokens"));
}

absl::Status CheckIds(std::string_view field, std::span<const TokenId> ids, int32_t vocab_size) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < vocab_size) continue;
    return MakeError(
        absl::StatusCode::kInvalidArgument,
        {.reason = Reason::kInvalidTokenId,
         .field = std::string(field),
         .values = {{"have", absl::StrCat(ids[i])}, {"limit", absl::StrCat(vocab_size)}}},
        absl::StrCat(std::string(field), "[", i, "] is token ", ids[i],
                     "; expected an id from 0 to ", vocab_size - 1));
  }
  return absl::OkStatus();
}

absl::Status CheckLengths(const SequenceSpec& spec, const SequenceLimits& limits) {
  const auto prompt = static_cast<int64_t>(spec.prompt.size());
  const auto generated = static_cast<int64_t>(spec.generated.size());
  const int64_t fits = TokensThatFit(spec, limits);
  const int64_t asked = spec.stop.max_tokens;
  if (asked > 0 && generated >= asked) {
    return InvalidArgument(Reason::kInvalidMaxTokens, "max_tokens",
                           absl::StrCat(generated, " tokens were accepted already and max_tokens ",
                                        "is ", asked, "; nothing is left to generate"));
  }
  if (asked > 0 && prompt + asked > fits) {
    return TooLong("the prompt and max_tokens", prompt + asked, fits);
  }
  if (prompt + generated + 1 > fits) {
    return TooLong("the prompt and the next token", prompt + generated + 1, fits);
  }
  if (prompt + generated > limits.pool_tokens) {
    return TooLong("the prompt's KV blocks", prompt + generated, limits.pool_tokens);
  }
  return absl::OkStatus();
}

}  // namespace

int32_t ResolveMaxTokens(const SequenceSpec& spec, const SequenceLimits& limits) {
  if (spec.stop.max_tokens > 0) return spec.stop.max_tokens;
  return static_cast<int32_t>(TokensThatFit(spec, limits) -
                              static_cast<int64_t>(spec.prompt.size()));
}

absl::Status CheckSpec(const SequenceSpec& spec, const SequenceLimits& limits) {
  if (spec.prompt.empty()) {
    return InvalidArgument(Reason::kEmptyPrompt, "prompt",
                           "the prompt has no tokens; expected at least one");
  }
  BATON_RETURN_IF_ERROR(CheckIds("prompt_ids", spec.prompt, limits.vocab_size));
  BATON_RETURN_IF_ERROR(CheckIds("generated_ids", spec.generated, limits.vocab_size));
  BATON_RETURN_IF_ERROR(ValidateSampling(spec.sampling, limits.vocab_size));
  BATON_RETURN_IF_ERROR(ValidateStop(spec.stop, limits.vocab_size));
  return CheckLengths(spec, limits);
}

}  // namespace baton
