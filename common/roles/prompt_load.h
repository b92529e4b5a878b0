#pragma once

#include <cstdint>

#include "common/base/clock.h"

namespace baton {

// Which share of a worker's time prompts took over the last second or so. Not thread-safe.
class PromptLoad final {
 public:
  // So many tokens of prompts were computed until `now`, in all, each of which adds `token_s` to a
  // step. To be called now and then; returns the load in hundredths, so that it comes to rest.
  double Note(uint64_t computed, double token_s, base::Instant now);

 private:
  base::Instant noted_at_{};
  uint64_t computed_ = 0;
  double load_ = 0;
};

}  // namespace baton
