#include "router/edge/work_pool.h"

#include <algorithm>
#include <optional>

namespace baton {

WorkPool::WorkPool(int threads, size_t capacity) : queue_(capacity) {
  for (int i = 0; i < std::max(1, threads); ++i) {
    threads_.emplace_back([this] {
      while (auto work = queue_.PopUntil(base::kNever)) (*work)();
    });
  }
}

WorkPool::~WorkPool() {
  queue_.Close();
  for (std::thread& thread : threads_) thread.join();
}

int WorkPool::DefaultThreads() {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::clamp(cores / 2, 1, 8);
}

}  // namespace baton
