#pragma once

#include <optional>

#include "common/sched/policy.h"

namespace baton {

// Views made by hand. Of `left` nothing is known where it is absent.
struct ViewParts {
  uint64_t id = 1;
  int64_t came_ms = 0;
  int32_t prompt = 100;
  int32_t generated = 0;
  int32_t limit = 10000;  // tokens left
  std::optional<float> left, class_tokens;
  float soon = 0;  // chance of an end within kEndHorizons[2] tokens
  bool gave_way = false;
};
inline SequenceView ViewOf(const ViewParts& parts) {
  SequenceView view = {.id = SequenceId(parts.id),
                       .arrived = base::Instant(std::chrono::milliseconds(parts.came_ms)),
                       .prompt_tokens = parts.prompt,
                       .generated_tokens = parts.generated,
                       .tokens_left = parts.limit,
                       .end = std::nullopt,
                       .class_tokens = parts.class_tokens,
                       .gave_way = parts.gave_way};
  if (parts.left) {
    view.end =
        EndEstimate{.expected_remaining = *parts.left, .p50 = *parts.left, .p90 = *parts.left};
    view.end->p_within[2] = parts.soon;
  }
  return view;
}
inline PolicyMoment MomentAt(int64_t now_ms, PolicySettings settings = {}) {
  return {.now = base::Instant(std::chrono::milliseconds(now_ms)),
          .token_time = std::chrono::milliseconds(10),
          .settings = settings};
}

}  // namespace baton
