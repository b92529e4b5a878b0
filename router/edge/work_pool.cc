#include "router/edge/work_pool.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace baton {

namespace {

FairQueueBounds WithAThreadLeft(FairQueueBounds bounds, int threads) {
  bounds.running = static_cast<size_t>(std::max(1, threads - 1));
  return bounds;
}

}  // namespace

WorkPool::WorkPool(int threads, FairQueueBounds bounds) : queue_(WithAThreadLeft(bounds, threads)) {
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
  std::vector<FairQueue::Displaced> displaced;  // ended without the lock
  absl::Status taken;
  {
    base::MutexLock lock(&mutex_);
    while (auto one = queue_.MakeRoomFor(work)) displaced.push_back(*std::move(one));
    taken = queue_.Push(std::move(work));
    refused_ += displaced.size() + (taken.ok() ? 0 : 1);
  }
  if (taken.ok()) changed_.NotifyOne();
  for (const FairQueue::Displaced& one : displaced) one.work.displaced(one.full);
  return taken;
}

bool WorkPool::Drop(uint64_t id) {
  std::optional<PoolWork> dropped;  // destroyed without the lock
  base::MutexLock lock(&mutex_);
  dropped = queue_.Remove(id);
  return dropped.has_value();
}

WorkPool::Figures WorkPool::figures() const {
  base::MutexLock lock(&mutex_);
  return {.waiting = queue_.size(), .bytes = queue_.bytes(), .refused = refused_};
}

void WorkPool::Run() {
  while (true) {
    std::optional<PoolWork> work;
    {
      base::MutexLock lock(&mutex_);
      while (!(work = queue_.Pop())) {
        if (stopping_ && queue_.size() == 0) return;
        changed_.Wait(&mutex_);
      }
    }
    work->run();
    base::MutexLock lock(&mutex_);
    // What may run now runs on this thread; the others only wait for the end.
    queue_.Done(work->client);
    if (stopping_) changed_.NotifyAll();
  }
}

int WorkPool::DefaultThreads() {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::clamp(cores / 2, 1, 7) + 1;
}

}  // namespace baton
