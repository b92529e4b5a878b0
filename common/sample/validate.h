#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "common/sample/params.h"

// What a request may ask for. The router and the workers use the same checks.
namespace baton {

// Most alternatives per token that a request may ask for.
constexpr int32_t kMaxTopLogprobs = 20;

// INVALID_SAMPLING with the field, or INVALID_TOKEN_ID for a bias outside [0, vocab_size).
absl::Status ValidateSampling(const SamplingParams& params, int32_t vocab_size);

// INVALID_MAX_TOKENS, INVALID_TOKEN_ID, or CONFLICTING_OPTIONS (min_tokens above max_tokens; stop
// ids beside an ignore policy). max_tokens 0 means unset here.
absl::Status ValidateStop(const StopParams& params, int32_t vocab_size);

}  // namespace baton
