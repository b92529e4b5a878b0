#include "common/worker/load_progress.h"

#include <utility>

#include "absl/strings/str_format.h"

namespace baton {
namespace {

constexpr auto kFirst = std::chrono::seconds(2);
constexpr auto kEvery = std::chrono::seconds(5);
constexpr auto kTick = std::chrono::milliseconds(500);

double MiB(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

}  // namespace

LoadProgressLog::LoadProgressLog(const base::Clock* clock,
                                 std::function<void(const std::string&)> say)
    : clock_(clock), say_(std::move(say)) {}

void LoadProgressLog::Begin(const std::string& phase) {
  base::MutexLock lock(&mutex_);
  phase_ = phase;
  done_ = total_ = 0;
  begin_ = clock_->Now();
  next_ = phase.empty() ? base::kNever : begin_ + kFirst;
}

void LoadProgressLog::Note(int64_t done, int64_t total) {
  base::MutexLock lock(&mutex_);
  done_ = done;
  total_ = total;
  if (done < total || std::exchange(loaded_, true)) return;
  say_(absl::StrFormat("weights loaded: %.1f MiB in %.2f s", MiB(total),
                       base::Seconds(clock_->Now() - begin_)));
}

void LoadProgressLog::Tick() {
  base::MutexLock lock(&mutex_);
  const base::Instant now = clock_->Now();
  if (now < next_) return;
  next_ = now + kEvery;
  say_(absl::StrFormat("%s, %.0f s so far", Describe(), base::Seconds(now - begin_)));
}

std::string LoadProgressLog::Doing() const {
  base::MutexLock lock(&mutex_);
  return Describe();
}

std::string LoadProgressLog::Describe() const {
  if (total_ == 0) return phase_;
  return absl::StrFormat("%s: %d %% of %.1f MiB", phase_, done_ * 100 / total_, MiB(total_));
}

LoadProgressTicks::LoadProgressTicks(LoadProgressLog* log, const base::Clock* clock)
    : log_(log), timers_(clock) {
  Arm();
}

void LoadProgressTicks::Arm() {
  timers_.After(kTick, [this] {
    log_->Tick();
    Arm();
  });
}

}  // namespace baton
