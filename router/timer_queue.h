#pragma once

#include <functional>
#include <queue>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace baton {

// Runs callbacks at their time on one thread of its own. Callbacks must be short; they hold weak
// references to what they wake, so nothing has to be disarmed. Thread-safe.
class TimerQueue final {
 public:
  explicit TimerQueue(const base::Clock* clock);
  ~TimerQueue();
  TimerQueue(const TimerQueue&) = delete;
  TimerQueue& operator=(const TimerQueue&) = delete;

  void At(base::Instant when, std::function<void()> callback);
  // No callback runs after it.
  void Stop();

 private:
  struct Entry {
    base::Instant when;
    uint64_t order;  // first armed, first run among equals
    std::function<void()> callback;
    bool operator<(const Entry& other) const {
      return when != other.when ? when > other.when : order > other.order;
    }
  };
  void Run();

  const base::Clock* const clock_;
  base::Mutex mutex_;
  base::CondVar changed_;
  std::priority_queue<Entry> entries_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_order_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace baton
