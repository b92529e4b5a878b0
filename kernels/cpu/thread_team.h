#pragma once

#include <thread>

#include "absl/status/status.h"

namespace baton::kernels::cpu {

// Asks OpenMP for `wanted` threads in the regions of the calling thread and returns how many come.
// They are fewer under OMP_THREAD_LIMIT, under OMP_MAX_ACTIVE_LEVELS and inside another region.
// From then on the number does not follow the machine's load, whatever OMP_DYNAMIC says.
int AskForThreads(int wanted);

// The number of threads that a backend was made for. OpenMP keeps its settings per calling thread,
// so whichever thread drives the backend next calls Take first.
class ThreadTeam {
 public:
  explicit ThreadTeam(int threads) : threads_(threads) {}

  // Costs nothing for the thread that called it last. A device fault where fewer threads come than
  // the backend was made for.
  absl::Status Take();

 private:
  int threads_;
  std::thread::id taken_by_;
};

}  // namespace baton::kernels::cpu
