#include "common/base/timer_queue.h"

#include <utility>

namespace baton::base {

TimerQueue::TimerQueue(const Clock* clock) : clock_(clock), thread_([this] { Run(); }) {}

TimerQueue::~TimerQueue() { Stop(); }

void TimerQueue::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

void TimerQueue::At(Instant when, std::function<void()> callback) {
  bool first = false;
  {
    MutexLock lock(&mutex_);
    if (stopping_) return;
    first = entries_.empty() || when < entries_.top().when;
    entries_.push({when, next_order_++, std::move(callback)});
  }
  if (first) changed_.NotifyOne();
}

void TimerQueue::Run() {
  mutex_.Lock();
  while (!stopping_) {
    if (entries_.empty()) {
      changed_.Wait(&mutex_);
      continue;
    }
    const Instant when = entries_.top().when;
    if (clock_->Now() < when) {
      changed_.WaitUntil(&mutex_, when);
      continue;
    }
    std::function<void()> callback = entries_.top().callback;
    entries_.pop();
    mutex_.Unlock();
    callback();
    callback = nullptr;  // what it holds is released without the lock
    mutex_.Lock();
  }
  mutex_.Unlock();
}

}  // namespace baton::base
