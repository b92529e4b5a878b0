#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "common/base/mutex.h"

namespace baton {

// Threads that run tasks in the order in which they come, with a bound on those that wait.
// Thread-safe.
class TaskPool final {
 public:
  TaskPool(int threads, size_t most_waiting);
  ~TaskPool() { Stop(); }

  // Drops what has not begun, waits for the rest, and takes nothing from then on.
  void Stop();

  // False when as many wait as may; the task is then untouched.
  bool Submit(std::function<void()>&& task);

 private:
  void Run();

  const size_t most_waiting_;
  base::Mutex mutex_;
  base::CondVar changed_;
  std::deque<std::function<void()>> waiting_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  base::Mutex stop_mutex_;
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(stop_mutex_);
};

}  // namespace baton
