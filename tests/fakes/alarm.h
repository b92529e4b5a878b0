#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <queue>
#include <thread>
#include <tuple>
#include <utility>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace baton::testing {

// Calls back at given times, on a thread of its own. Thread-safe.
class Alarm final {
 public:
  Alarm() : thread_([this] { Run(); }) {}
  ~Alarm() { Stop(); }

  void At(base::Instant when, std::function<void()> what) {
    base::MutexLock lock(&mutex_);
    const bool first = entries_.empty() || when < entries_.top().when;
    entries_.push({when, ++order_, std::move(what)});
    if (first) changed_.NotifyAll();
  }

  void Stop() {
    {
      base::MutexLock lock(&mutex_);
      stop_ = true;
      changed_.NotifyAll();
    }
    if (thread_.joinable()) thread_.join();
  }

 private:
  struct Entry {
    base::Instant when;
    int64_t order;
    std::function<void()> what;
    bool operator<(const Entry& other) const {
      return std::tie(other.when, other.order) < std::tie(when, order);
    }
  };

  void Run() {
    while (true) {
      std::function<void()> what;
      {
        base::MutexLock lock(&mutex_);
        while (!stop_ &&
               (entries_.empty() || std::chrono::steady_clock::now() < entries_.top().when)) {
          if (entries_.empty()) {
            changed_.Wait(&mutex_);
          } else {
            changed_.WaitUntil(&mutex_, entries_.top().when);
          }
        }
        if (stop_) return;
        what = entries_.top().what;
        entries_.pop();
      }
      what();
    }
  }

  base::Mutex mutex_;
  base::CondVar changed_;
  std::priority_queue<Entry> entries_ ABSL_GUARDED_BY(mutex_);
  int64_t order_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace baton::testing
