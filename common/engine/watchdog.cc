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

// So many looks in a row must find nothing once the time is over: after a process was stopped, the
// first one finds a clock that went on without the engine.
constexpr int kLooks = 4;

}  // namespace

Watchdog::Watchdog(std::function<uint64_t()> operations, const base::Clock* clock,
                   base::Duration timeout, std::function<void()> on_stall)
    : operations_(std::move(operations)),
      clock_(clock),
      timeout_(timeout),
      on_stall_(std::move(on_stall)) {
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
  uint64_t operations = operations_();
  uint64_t signs = signs_;
  base::Instant progress = clock_->Now();
  int looks = 0;
  base::MutexLock lock(&mutex_);
  while (!stop_) {
    stopped_.WaitUntil(&mutex_, std::chrono::steady_clock::now() + PollInterval(timeout_));
    const base::Instant now = clock_->Now();
    const uint64_t operations_now = operations_();
    const uint64_t signs_now = signs_;
    if (resting_ || operations_now != operations || signs_now != signs) {
      operations = operations_now;
      signs = signs_now;
      progress = now;
      looks = 0;
    } else if (now - progress >= timeout_ && ++looks >= kLooks) {
      on_stall_();
      return;
    }
  }
}

}  // namespace baton
