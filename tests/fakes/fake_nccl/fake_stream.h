#pragma once

#include <condition_variable>
#include <mutex>

namespace baton::nccl {

// What a test passes as the stream of collective calls, to wait for them as for a device. Null is
// a stream that nobody waits for.
class FakeStream {
 public:
  virtual ~FakeStream() = default;
  virtual void Begin() {
    std::lock_guard lock(mutex_);
    ++queued_;
  }
  // One operation is over, or was aborted.
  virtual void End() {
    std::lock_guard lock(mutex_);
    --queued_;
    changed_.notify_all();
  }
  void Synchronize() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return queued_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int queued_ = 0;
};

}  // namespace baton::nccl
