#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "common/sched/sequence.h"

namespace baton {

// The bounds that a sequence must keep to.
struct SequenceLimits {
  int32_t max_model_len = 0;  // tokens of prompt and output
  int32_t pool_tokens = 0;    // tokens that the whole block pool holds
  int32_t vocab_size = 0;
  int32_t block_size = 16;
  int32_t max_beams = 0;         // of one search, all of which have to fit into one step
  std::vector<TokenId> eos_ids;  // the model's
};

// How many tokens the request may generate in all: what it says, else as many as fit.
int32_t ResolveMaxTokens(const SequenceSpec& spec, const SequenceLimits& limits);

// Refuses what could never run: EMPTY_PROMPT, INVALID_TOKEN_ID, TOO_LONG, INVALID_MAX_TOKENS (also
// when the accepted tokens already reach max_tokens), INVALID_SAMPLING, CONFLICTING_OPTIONS.
absl::Status CheckSpec(const SequenceSpec& spec, const SequenceLimits& limits);

}  // namespace baton
