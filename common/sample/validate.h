#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "common/sample/params.h"

// What a request may ask for. The router and the workers use the same checks.
namespace baton {

// Most alternatives per token that a request may ask for.
constexpr int32_t kMaxTopLogprobs = 20;

// TOO_LONG: the `tokens` of a request's part exceed `limit`. `part` reads behind "tokens of":
// "prompt and max_tokens".
absl::Status TooLong(std::string_view field, std::string_view part, int64_t tokens, int64_t limit);

// INVALID_TOKEN_ID for the first id outside [0, vocab_size).
absl::Status CheckTokenIds(std::string_view field, std::span<const TokenId> ids,
                           int32_t vocab_size);

// INVALID_SAMPLING with the field, or INVALID_TOKEN_ID for a bias outside [0, vocab_size).
absl::Status ValidateSampling(const SamplingParams& params, int32_t vocab_size);

// INVALID_MAX_TOKENS, INVALID_TOKEN_ID, or CONFLICTING_OPTIONS (min_tokens above max_tokens; stop
// ids beside an ignore policy). max_tokens 0 means unset here.
absl::Status ValidateStop(const StopParams& params, int32_t vocab_size);

}  // namespace baton
