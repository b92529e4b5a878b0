#include "common/worker/load_progress.h"

#include <utility>

#include "absl/strings/str_format.h"

namespace baton {
namespace {

constexpr auto kFirst = std::chrono::seconds(1);
constexpr auto kEvery = std::chrono::seconds(5);

}  // namespace

LoadProgressLog::LoadProgressLog(const base::Clock* clock,
                                 std::function<void(const std::string&)> say)
    : clock_(clock), say_(std::move(say)), begin_(clock->Now()), next_(begin_ + kFirst) {}

void LoadProgressLog::Note(int64_t done, int64_t total) {
  if (closed_) return;
  const base::Instant now = clock_->Now();
  const double seconds = base::Seconds(now - begin_);
  if (done >= total) {
    closed_ = true;
    say_(absl::StrFormat("weights loaded: %.1f MiB in %.2f s", total / 1048576.0, seconds));
  } else if (now >= next_) {
    next_ = now + kEvery;
    say_(absl::StrFormat("loading weights: %d %% of %.1f MiB after %.0f s", done * 100 / total,
                         total / 1048576.0, seconds));
  }
}

}  // namespace baton
