#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace baton::base {

// Runs callbacks at their time on one thread of its own. Callbacks must be short; they hold weak
// references to what they wake, so nothing has to be disarmed, and may arm again. Bounded by its
// users: each arms a fixed number of timers. Thread-safe.
class TimerQueue final {
 public:
  // `clock` must follow the real time, and outlive this.
  explicit TimerQueue(const Clock* clock);
  ~TimerQueue();
  TimerQueue(const TimerQueue&) = delete;
  TimerQueue& operator=(const TimerQueue&) = delete;

  void At(Instant when, std::function<void()> callback);
  void After(Duration delay, std::function<void()> callback) {
    At(clock_->Now() + delay, std::move(callback));
  }
  // No callback runs after it.
  void Stop();

 private:
  struct Entry {
    Instant when;
    uint64_t order;  // first armed, first run among equals
    std::function<void()> callback;
    bool operator<(const Entry& other) const {
      return when != other.when ? when > other.when : order > other.order;
    }
  };
  void Run();

  const Clock* const clock_;
  Mutex mutex_;
  CondVar changed_;
  std::priority_queue<Entry> entries_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_order_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace baton::base
