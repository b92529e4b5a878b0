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

// The strongest length control that a request may ask for.
constexpr float kMaxLengthStrength = 100;

// Makes the error TOO_LONG for a request of which `part`, such as "prompt and max_tokens", has more
// tokens than `limit`. `field` is the field to blame.
absl::Status TooLong(std::string_view field, std::string_view part, int64_t tokens, int64_t limit);

// Refuses the first id outside [0, vocab_size) as INVALID_TOKEN_ID.
absl::Status CheckTokenIds(std::string_view field, std::span<const TokenId> ids,
                           int32_t vocab_size);

// Refuses with INVALID_SAMPLING and the field, LIMIT_EXCEEDED (request_limits.h), or
// INVALID_TOKEN_ID for a bias outside [0, vocab_size).
absl::Status ValidateSampling(const SamplingParams& params, int32_t vocab_size);

// Refuses with INVALID_MAX_TOKENS, INVALID_TOKEN_ID, LIMIT_EXCEEDED, or CONFLICTING_OPTIONS
// (min_tokens above max_tokens; stop ids or length control beside an ignore policy), or
// INVALID_SAMPLING for a length control out of its range. max_tokens 0 means unset here.
absl::Status ValidateStop(const StopParams& params, int32_t vocab_size);

}  // namespace baton
