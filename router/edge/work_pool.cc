#include "router/edge/work_pool.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace baton {

WorkPool::WorkPool(int threads, FairQueueBounds bounds) : queue_(bounds) {
  for (int i = 0; i < std::max(1, threads); ++i) {
    threads_.emplace_back([this] { Run(); });
  }
}

WorkPool::~WorkPool() {
  {
    base::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
}

absl::Status WorkPool::Submit(PoolWork work) {
  {
    base::MutexLock lock(&mutex_);
    if (absl::Status taken = queue_.Push(std::move(work)); !taken.ok()) return taken;
  }
  changed_.NotifyOne();
  return absl::OkStatus();
}

bool WorkPool::Drop(uint64_t id) {
  std::optional<PoolWork> dropped;  // destroyed without the lock
  base::MutexLock lock(&mutex_);
  dropped = queue_.Remove(id);
  return dropped.has_value();
}

size_t WorkPool::waiting() const {
  base::MutexLock lock(&mutex_);
  return queue_.size();
}

void WorkPool::Run() {
  while (true) {
    std::optional<PoolWork> work;
    {
      base::MutexLock lock(&mutex_);
      while (queue_.size() == 0 && !stopping_) changed_.Wait(&mutex_);
      work = queue_.Pop();
    }
    if (!work) return;
    work->run();
    base::MutexLock lock(&mutex_);
    queue_.Done(work->client);
  }
}

int WorkPool::DefaultThreads() {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::clamp(cores / 2, 1, 8);
}

}  // namespace baton
