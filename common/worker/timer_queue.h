#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <thread>
#include <utility>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace baton {

// Runs callbacks at their time on one thread of its own. Thread-safe. Callbacks must be short and
// may call back into the queue. Bounded by its users: each stream has a fixed number of timers.
class TimerQueue final {
 public:
  using TimerId = uint64_t;

  TimerQueue();
  // Joins; timers that are not due are dropped.
  ~TimerQueue();
  TimerQueue(const TimerQueue&) = delete;
  TimerQueue& operator=(const TimerQueue&) = delete;

  TimerId After(base::Duration delay, std::function<void()> callback);
  // Does not wait for a callback that runs already.
  void Cancel(TimerId id);

 private:
  void Run();

  base::Mutex mutex_;
  base::CondVar changed_;
  std::map<std::pair<base::Instant, TimerId>, std::function<void()>> due_ ABSL_GUARDED_BY(mutex_);
  std::map<TimerId, base::Instant> when_ ABSL_GUARDED_BY(mutex_);
  TimerId next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace baton
