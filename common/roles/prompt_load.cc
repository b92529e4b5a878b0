#include "common/roles/prompt_load.h"

#include <algorithm>
#include <cmath>

namespace baton {
namespace {

constexpr base::Duration kNoteEvery = std::chrono::milliseconds(250);
// The part of the mean that the last of these intervals has.
constexpr double kNewest = 0.25;

}  // namespace

double PromptLoad::Note(uint64_t computed, double token_s, base::Instant now) {
  const base::Duration passed = now - noted_at_;
  if (noted_at_ == base::Instant() || computed < computed_) {
    noted_at_ = now;
    computed_ = computed;
  } else if (passed >= kNoteEvery) {
    const double share =
        static_cast<double>(computed - computed_) * token_s / base::Seconds(passed);
    const double intervals = base::Seconds(passed) / base::Seconds(kNoteEvery);
    load_ += (1 - std::pow(1 - kNewest, intervals)) * (share - load_);
    noted_at_ = now;
    computed_ = computed;
  }
  return std::round(100 * load_) / 100;
}

}  // namespace baton
