#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "httplib.h"

namespace baton {

// A thread for each open connection, because the library's server occupies one from the first
// request of a connection until its end, also while a scraper keeps it idle. Threads come when they
// are needed and stay. At the bound no connection is accepted until one ends, and the kernel's
// backlog is the queue.
class ConnectionThreads final : public httplib::TaskQueue {
 public:
  explicit ConnectionThreads(size_t most) : most_(most) {}
  ~ConnectionThreads() override = default;

  // Serves a connection. From the accepting thread only; waits at the bound.
  void enqueue(std::function<void()> connection) override;
  // Waits until all are served.
  void shutdown() override;

 private:
  void Run();

  const size_t most_;
  base::Mutex mutex_;
  base::CondVar arrived_;
  base::CondVar ended_;
  std::deque<std::function<void()>> waiting_ ABSL_GUARDED_BY(mutex_);  // for a thread to wake up
  size_t open_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // the accepting thread's
};

}  // namespace baton
