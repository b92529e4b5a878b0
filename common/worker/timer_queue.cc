#include "common/worker/timer_queue.h"

namespace baton {

TimerQueue::TimerQueue() : thread_([this] { Run(); }) {}

TimerQueue::~TimerQueue() {
  {
    base::MutexLock lock(&mutex_);
    stop_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

TimerQueue::TimerId TimerQueue::After(base::Duration delay, std::function<void()> callback) {
  // The steady clock itself: these are waits of a thread, not decisions of the protocol.
  const base::Instant at = std::chrono::steady_clock::now() + delay;
  base::MutexLock lock(&mutex_);
  const TimerId id = next_id_++;
  due_.emplace(std::pair(at, id), std::move(callback));
  when_.emplace(id, at);
  changed_.NotifyAll();
  return id;
}

void TimerQueue::Cancel(TimerId id) {
  std::function<void()> dropped;  // destroyed without the lock
  base::MutexLock lock(&mutex_);
  const auto found = when_.find(id);
  if (found == when_.end()) return;
  const auto entry = due_.find({found->second, id});
  dropped = std::move(entry->second);
  due_.erase(entry);
  when_.erase(found);
}

void TimerQueue::Run() {
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
      when_.erase(due_.begin()->first.second);
      due_.erase(due_.begin());
    }
    callback();
  }
}

}  // namespace baton
