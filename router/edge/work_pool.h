#pragma once

#include <functional>
#include <thread>
#include <vector>

#include "common/base/bounded_queue.h"

namespace baton {

// Threads for work that takes milliseconds (tokenizing, templates), so that no gRPC callback does
// it. Thread-safe.
class WorkPool final {
 public:
  WorkPool(int threads, size_t capacity);
  // Finishes the work that was taken.
  ~WorkPool();

  // False when `capacity` pieces of work wait already.
  bool TrySubmit(std::function<void()> work) { return queue_.TryPush(std::move(work)); }

  // The number of threads that help on this machine without starving gRPC's callbacks.
  static int DefaultThreads();

 private:
  base::BoundedQueue<std::function<void()>> queue_;
  std::vector<std::thread> threads_;
};

}  // namespace baton
