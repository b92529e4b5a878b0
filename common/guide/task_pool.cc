#include "common/guide/task_pool.h"

#include <utility>

namespace baton {

TaskPool::TaskPool(int threads, size_t most_waiting) : most_waiting_(most_waiting) {
  base::MutexLock lock(&stop_mutex_);
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

void TaskPool::Stop() {
  std::deque<std::function<void()>> dropped;  // destroyed without the lock
  {
    base::MutexLock lock(&mutex_);
    stopping_ = true;
    dropped.swap(waiting_);
    changed_.NotifyAll();
  }
  base::MutexLock lock(&stop_mutex_);
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

bool TaskPool::Submit(std::function<void()>&& task) {
  base::MutexLock lock(&mutex_);
  if (stopping_ || waiting_.size() >= most_waiting_) return false;
  waiting_.push_back(std::move(task));
  changed_.NotifyOne();
  return true;
}

void TaskPool::Run() {
  while (true) {
    std::function<void()> task;
    {
      base::MutexLock lock(&mutex_);
      while (!stopping_ && waiting_.empty()) changed_.Wait(&mutex_);
      if (stopping_) return;
      task = std::move(waiting_.front());
      waiting_.pop_front();
    }
    task();
  }
}

}  // namespace baton
