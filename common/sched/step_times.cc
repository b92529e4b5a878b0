#include "common/sched/step_times.h"

#include <algorithm>

namespace baton {
namespace {

// The part of a mean that the newest step has.
constexpr double kNewest = 0.05;

}  // namespace

void StepTimes::Note(const StepShape& shape, base::Duration took) {
  const double seconds = base::Seconds(took);
  if (shape.prefill_tokens > 0) {
    return prompts_.Add(shape.prefill_tokens, std::max(0.0, seconds - plain_s_));
  }
  if (shape.decode_tokens == 0) return;
  plain_s_ += (plain_s_ == 0 ? 1 : kNewest) * (seconds - plain_s_);
}

double StepTimes::prompt_token_s() const {
  return prompts_.points() >= kEnough ? prompts_.slope() : 0;
}

double StepTimes::step_s() const { return plain_s_ > 0 ? plain_s_ : prompts_.at_zero(); }

}  // namespace baton
