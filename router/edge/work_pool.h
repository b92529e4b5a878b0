#pragma once

#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "router/edge/fair_queue.h"

namespace baton {

// Threads for work that takes milliseconds (tokenizing, templates), so that no gRPC callback does
// it. Clients take turns, as FairQueue has it, and none has all threads at once, so that a long
// text delays its own client alone. Thread-safe.
class WorkPool final {
 public:
  // Of `bounds` it sets what may run.
  WorkPool(int threads, FairQueueBounds bounds);
  // Finishes the work that was taken.
  ~WorkPool();

  // QUEUE_FULL when as much waits as may. Then a client that has more there than this one may have
  // to leave the room for its last piece, which is told so before Submit returns.
  absl::Status Submit(PoolWork work);
  // Nobody waits for this piece any more. True when it had not begun; then it never will.
  bool Drop(uint64_t id);

  // What has not begun, and how many pieces were refused or had to leave, ever.
  struct Figures {
    size_t waiting = 0;
    size_t bytes = 0;
    uint64_t refused = 0;
  };
  Figures figures() const;

  // The number of threads of which one client may have as many as help on this machine without
  // starving gRPC's callbacks.
  static int DefaultThreads();

 private:
  void Run();

  mutable base::Mutex mutex_;
  base::CondVar changed_;
  FairQueue queue_ ABSL_GUARDED_BY(mutex_);
  uint64_t refused_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace baton
