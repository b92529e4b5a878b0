#include "common/engine/watchdog.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace baton {
namespace {

using std::chrono::milliseconds;

// Looks eight times per timeout, in real time: `clock` may be a test's.
base::Duration PollInterval(base::Duration timeout) {
  return std::clamp<base::Duration>(timeout / 8, milliseconds(1), milliseconds(1000));
}

}  // namespace

Watchdog::Watchdog(const ModelRunner* runner, const base::Clock* clock, base::Duration timeout,
                   std::function<void()> on_stall)
    : runner_(runner), clock_(clock), timeout_(timeout), on_stall_(std::move(on_stall)) {
  thread_ = std::thread([this] { Run(); });
}

Watchdog::~Watchdog() {
  {
    base::MutexLock lock(&mutex_);
    stop_ = true;
  }
  stopped_.NotifyAll();
  thread_.join();
}

void Watchdog::Run() {
  uint64_t operations = runner_->operations_finished();
  uint64_t steps = steps_;
  base::Instant progress = clock_->Now();
  base::MutexLock lock(&mutex_);
  while (!stop_) {
    stopped_.WaitUntil(&mutex_, std::chrono::steady_clock::now() + PollInterval(timeout_));
    const base::Instant now = clock_->Now();
    const uint64_t operations_now = runner_->operations_finished();
    const uint64_t steps_now = steps_;
    if (!in_step_ || operations_now != operations || steps_now != steps) {
      operations = operations_now;
      steps = steps_now;
      progress = now;
    } else if (now - progress >= timeout_) {
      on_stall_();
      return;
    }
  }
}

}  // namespace baton
