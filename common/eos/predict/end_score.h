#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "common/base/end_estimate.h"

namespace baton {

// What is known of `estimate` when the answer ended at step `natural`, or, without that, was seen
// to go on until step `seen`. Empty where that says nothing about the steps behind the estimate.
inline std::optional<EndScore> ScoreOf(const EndEstimate& estimate, std::optional<int32_t> natural,
                                       int32_t seen) {
  EndScore score{.estimate = estimate};
  const int32_t remaining = natural.value_or(seen) - estimate.at_step;
  if (remaining < 1) return std::nullopt;
  if (natural) score.remaining = remaining;
  for (size_t i = 0; i < kEndHorizons.size(); ++i) {
    const bool within = remaining <= kEndHorizons[i];
    if (natural) {
      score.ended_within[i] = within ? 1 : 0;
    } else {
      score.ended_within[i] = remaining >= kEndHorizons[i] ? 0 : -1;
    }
  }
  return score;
}

}  // namespace baton
