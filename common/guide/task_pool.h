#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "common/base/mutex.h"

namespace baton {

// Threads that run tasks, with a bound on those that wait. Thread-safe.
//
// Quick tasks go before slow ones, and those of a kind in the order in which they come. Behind some
// quick ones a slow one has its turn, so that none waits for ever.
class TaskPool final {
 public:
  TaskPool(int threads, size_t most_waiting);
  ~TaskPool() { Stop(); }

  // Drops what has not begun, waits for the rest, and takes nothing from then on.
  void Stop();

  enum class Kind { kQuick, kSlow };
  static constexpr int kQuickInARow = 8;

  // False when as many wait as may; the task is then untouched.
  bool Submit(std::function<void()>&& task, Kind kind = Kind::kQuick);

 private:
  using Tasks = std::deque<std::function<void()>>;

  void Run();
  std::function<void()> Next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  size_t waiting() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return quick_.size() + slow_.size();
  }

  const size_t most_waiting_;
  base::Mutex mutex_;
  base::CondVar changed_;
  Tasks quick_ ABSL_GUARDED_BY(mutex_);
  Tasks slow_ ABSL_GUARDED_BY(mutex_);
  int quick_in_a_row_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  base::Mutex stop_mutex_;
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(stop_mutex_);
};

}  // namespace baton
