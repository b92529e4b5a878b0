#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/ids.h"

// What a request says about drawing and ending, as plain data. The defaults of a model are not in
// here: for what a request leaves out the router takes generation_config.json, and then the values
// below.
namespace baton {

// What happens when the model draws an EOS id.
enum class EosPolicy {
  kHonor,           // EOS ends the request
  kIgnoreContinue,  // EOS may be drawn and is fed back; runs to max_tokens
  kIgnoreMask,      // an EOS draw is recorded once as the natural end, then redrawn without EOS
};

// How the next token is drawn.
struct SamplingParams {
  float temperature = 1;  // 0 = greedy
  int32_t top_k = 0;      // 0 = off
  float top_p = 1;
  float min_p = 0;
  float repetition_penalty = 1;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  int32_t no_repeat_ngram_size = 0;  // 0 = off
  std::vector<std::pair<TokenId, float>> logit_bias;
  uint64_t seed = 0;
  int32_t num_top_logprobs =
      0;  // alternatives per token; the drawn token's logprob is always there

  friend bool operator==(const SamplingParams&, const SamplingParams&) = default;
};

// Pulls the end of an answer towards a length: before a token is drawn, the logits of all EOS ids
// get strength * (t / target - 1), at least -20 and at most 20, where t is the number of the token
// that is drawn, counted from 1 over all attempts.
struct LengthControl {
  int32_t target = 0;  // tokens, >= 1
  float strength = 0;  // in (0, kMaxLengthStrength]

  friend bool operator==(const LengthControl&, const LengthControl&) = default;
};

// When a request ends, as far as the engine decides it. Stop strings are the router's business.
struct StopParams {
  int32_t max_tokens = 0;  // all generated tokens, of all attempts; 0 = as many as fit
  int32_t min_tokens = 0;
  std::vector<TokenId> stop_token_ids;  // beside the model's EOS ids
  EosPolicy eos_policy = EosPolicy::kHonor;
  std::optional<LengthControl> length_control;  // with kHonor only

  friend bool operator==(const StopParams&, const StopParams&) = default;
};

// How a request ended. Those up to kRunaway reach the client; the others are gRPC errors there.
enum class FinishReason {
  kNone,
  kStopEos,
  kStopToken,
  kStopString,
  kStopGrammar,
  kLength,
  kRunaway,  // it went round in circles, and the workers end such answers (runaway.h)
  kAborted,
  kDeadline,
  kError,
};

// The name of a reason in the EOS log: "stop_eos", …; "" for kNone.
std::string_view FinishReasonName(FinishReason reason);
// The name of a policy in the EOS log: "honor", "continue" or "mask".
std::string_view EosPolicyName(EosPolicy policy);

}  // namespace baton
