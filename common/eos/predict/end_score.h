#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "common/base/end_estimate.h"

namespace baton {

// How far an answer was seen, in steps.
struct AnswerSpan {
  std::optional<int32_t> natural;  // where the model ended it
  int32_t seen = 0;                // the last step, without a natural end
  int32_t limit = 0;               // how many steps its request allowed
};

// Empty where the answer says nothing about the steps behind the estimate.
inline std::optional<EndScore> ScoreOf(const EndEstimate& estimate, const AnswerSpan& answer) {
  EndScore score{.estimate = estimate};
  const int32_t remaining = answer.natural.value_or(answer.seen) - estimate.at_step;
  if (remaining < 1) return std::nullopt;
  if (answer.natural) score.remaining = remaining;
  for (size_t i = 0; i < kEndHorizons.size(); ++i) {
    const int32_t horizon = kEndHorizons[i];
    if (horizon > answer.limit - estimate.at_step) continue;
    if (answer.natural && remaining <= horizon) {
      score.outcomes[i] = EndOutcome::kEnded;
    } else {
      score.outcomes[i] = remaining >= horizon ? EndOutcome::kWentOn : EndOutcome::kUnknown;
    }
  }
  return score;
}

}  // namespace baton
