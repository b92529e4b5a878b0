#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace baton::base {

// A FIFO with a bound for any number of producers and consumers. Thread-safe.
//
// `TryPush` refuses when full. `PushReserved` is for items whose place was counted when their owner
// was admitted (cancel, release): it never refuses, so its callers bound it themselves.
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) {}

  // False when full or closed; `item` is then untouched.
  bool TryPush(T&& item) {
    {
      MutexLock lock(&mutex_);
      if (closed_ || items_.size() >= capacity_) return false;
      items_.push_back(std::move(item));
    }
    not_empty_.NotifyOne();
    return true;
  }

  // Pushes whatever the bound says. False only when closed.
  bool PushReserved(T&& item) {
    {
      MutexLock lock(&mutex_);
      if (closed_) return false;
      items_.push_back(std::move(item));
    }
    not_empty_.NotifyOne();
    return true;
  }

  // Waits for room. False when closed.
  bool Push(T&& item) {
    {
      MutexLock lock(&mutex_);
      while (!closed_ && items_.size() >= capacity_) not_full_.Wait(&mutex_);
      if (closed_) return false;
      items_.push_back(std::move(item));
    }
    not_empty_.NotifyOne();
    return true;
  }

  std::optional<T> TryPop() {
    MutexLock lock(&mutex_);
    return PopLocked();
  }

  // Waits for an item until `deadline`. Empty when none came, or when closed and drained.
  std::optional<T> PopUntil(Instant deadline) {
    MutexLock lock(&mutex_);
    while (items_.empty() && !closed_) {
      if (deadline == kNever) {
        not_empty_.Wait(&mutex_);
      } else if (!not_empty_.WaitUntil(&mutex_, deadline)) {
        break;
      }
    }
    return PopLocked();
  }

  // After this no push succeeds; what is queued can still be popped.
  void Close() {
    {
      MutexLock lock(&mutex_);
      closed_ = true;
    }
    not_empty_.NotifyAll();
    not_full_.NotifyAll();
  }

  bool closed() const {
    MutexLock lock(&mutex_);
    return closed_;
  }
  size_t size() const {
    MutexLock lock(&mutex_);
    return items_.size();
  }
  size_t capacity() const { return capacity_; }

 private:
  std::optional<T> PopLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    not_full_.NotifyOne();
    return item;
  }

  const size_t capacity_;
  mutable Mutex mutex_;
  CondVar not_empty_;
  CondVar not_full_;
  std::deque<T> items_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace baton::base
