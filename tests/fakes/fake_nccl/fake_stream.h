#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace baton::nccl {

// What a test passes as the stream of collective calls, to wait for them as for a device. Null is
// a stream that nobody waits for. Calls between BeginCapture and EndCapture do not run: they are
// kept as those of a CUDA graph are, until DestroyGraph.
class FakeStream {
 public:
  virtual ~FakeStream() { DestroyGraph(); }

  void BeginCapture() { capturing_ = true; }
  void EndCapture() { capturing_ = false; }
  bool capturing() const { return capturing_; }
  // The library keeps a call, and learns when the graph that holds it is gone.
  void Keep(std::function<void()> gone) { graph_.push_back(std::move(gone)); }
  void DestroyGraph() {
    for (const auto& gone : std::exchange(graph_, {})) gone();
  }

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
  bool capturing_ = false;  // this and the graph belong to the thread that calls
  std::vector<std::function<void()>> graph_;
};

}  // namespace baton::nccl
