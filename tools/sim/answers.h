#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "common/base/eos_signal.h"
#include "common/base/ids.h"

namespace baton::simulator {

// Prompts are drawn from so many ids. No vocabulary has the id that ends answers, so that recorded
// tokens may be any.
inline constexpr int32_t kVocabulary = 32000;
inline constexpr TokenId kEosToken = 1 << 30;
inline constexpr TokenId kAnyToken = 1;  // of answers whose tokens are not known

// What predictors are told of how an answer is drawn.
struct AnswerSampling {
  float temperature = 1;
  float top_p = 1;

  friend bool operator==(const AnswerSampling&, const AnswerSampling&) = default;
};

// A token of a recorded answer with what the sampler knew of its end.
struct RecordedToken {
  TokenId token = 0;
  EosSignal signal;
};

// One request that comes. Who serves it sees its prompt and limit, never how long its answer is.
struct SimRequest {
  base::Duration at{};  // since the start; zero in a closed loop
  int32_t input_tokens = 0;
  int32_t output_tokens = 0;       // at which the model ends the answer, that end included
  std::vector<uint64_t> hash_ids;  // as in bench::TraceRow
  std::shared_ptr<const std::vector<RecordedToken>> recorded;  // null: made
  // With what it is drawn, which predictors are told; of an answer that is made nobody asks.
  AnswerSampling sampling = {};
};

// The token that the model draws at output step `step`, counted from 1. Under forced lengths the
// model never ends by itself.
SampledToken AnswerAt(const SimRequest& request, int32_t step, bool forced);
// What somebody who knows the answer says of its end behind `step`; nothing behind the end.
std::optional<EndEstimate> OracleEnd(const SimRequest& request, int32_t step);

}  // namespace baton::simulator
