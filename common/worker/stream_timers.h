#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <thread>
#include <utility>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace baton {

// The timers of a worker's streams: runs callbacks at their time on one thread of its own.
// Thread-safe. Callbacks must be short, hold weak references, and may arm again. Bounded by its
// users: each stream has a fixed number of timers.
class StreamTimers final {
 public:
  StreamTimers();
  // Joins; timers that are not due are dropped.
  ~StreamTimers();
  StreamTimers(const StreamTimers&) = delete;
  StreamTimers& operator=(const StreamTimers&) = delete;

  void After(base::Duration delay, std::function<void()> callback);

 private:
  void Run();

  base::Mutex mutex_;
  base::CondVar changed_;
  // By time, then by age.
  std::map<std::pair<base::Instant, uint64_t>, std::function<void()>> due_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace baton
