#pragma once

#include <cstdint>

#include "common/base/clock.h"
#include "common/base/running_line.h"
#include "common/sched/step_plan.h"

namespace baton {

// How long the steps of a worker take lately, as far as a router has to know it to say what a
// prompt would cost there. Not thread-safe.
class StepTimes final {
 public:
  // Steps with prompt tokens after which their time per token is told.
  static constexpr int64_t kEnough = 8;

  // A step of that shape was computed.
  void Note(const StepShape& shape, base::Duration took);

  // What a prompt token adds to a step, in seconds; 0: too few were computed to say so.
  double prompt_token_s() const;
  // What a step takes without prompt tokens, in seconds: as the last such steps did, or, where
  // there were none, what steps of prompts take beside their tokens.
  double step_s() const;

 private:
  double plain_s_ = 0;  // the mean of late steps without prompt tokens; 0: there was none
  // Seconds beyond `plain_s_` by prompt tokens, of steps that had some.
  RunningLine prompts_{0.98};
};

}  // namespace baton
