#include "common/worker/stream_timers.h"

namespace baton {

StreamTimers::StreamTimers() : thread_([this] { Run(); }) {}

StreamTimers::~StreamTimers() {
  {
    base::MutexLock lock(&mutex_);
    stop_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void StreamTimers::After(base::Duration delay, std::function<void()> callback) {
  // The steady clock itself: these are waits of a thread, not decisions of the protocol.
  const base::Instant at = std::chrono::steady_clock::now() + delay;
  base::MutexLock lock(&mutex_);
  due_.emplace(std::pair(at, next_++), std::move(callback));
  changed_.NotifyAll();
}

void StreamTimers::Run() {
  for (;;) {
    std::function<void()> callback;
    {
      base::MutexLock lock(&mutex_);
      while (!stop_) {
        if (due_.empty()) {
          changed_.Wait(&mutex_);
          continue;
        }
        const base::Instant next = due_.begin()->first.first;
        if (next <= std::chrono::steady_clock::now()) break;
        changed_.WaitUntil(&mutex_, next);
      }
      if (stop_) return;
      callback = std::move(due_.begin()->second);
      due_.erase(due_.begin());
    }
    callback();
  }
}

}  // namespace baton
