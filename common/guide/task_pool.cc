#include "common/guide/task_pool.h"

#include <utility>

namespace baton {

TaskPool::TaskPool(int threads, size_t most_waiting) : most_waiting_(most_waiting) {
  base::MutexLock lock(&stop_mutex_);
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

void TaskPool::Stop() {
  Tasks dropped_quick, dropped_slow;  // destroyed without the lock
  {
    base::MutexLock lock(&mutex_);
    stopping_ = true;
    dropped_quick.swap(quick_);
    dropped_slow.swap(slow_);
    changed_.NotifyAll();
  }
  base::MutexLock lock(&stop_mutex_);
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

bool TaskPool::Submit(std::function<void()>&& task, Kind kind) {
  base::MutexLock lock(&mutex_);
  if (stopping_ || waiting() >= most_waiting_) return false;
  (kind == Kind::kQuick ? quick_ : slow_).push_back(std::move(task));
  changed_.NotifyOne();
  return true;
}

std::function<void()> TaskPool::Next() {
  const bool slow = quick_.empty() || (!slow_.empty() && quick_in_a_row_ >= kQuickInARow);
  quick_in_a_row_ = slow ? 0 : quick_in_a_row_ + 1;
  Tasks& tasks = slow ? slow_ : quick_;
  std::function<void()> task = std::move(tasks.front());
  tasks.pop_front();
  return task;
}

void TaskPool::Run() {
  while (true) {
    std::function<void()> task;
    {
      base::MutexLock lock(&mutex_);
      while (!stopping_ && waiting() == 0) changed_.Wait(&mutex_);
      if (stopping_) return;
      task = Next();
    }
    task();
  }
}

}  // namespace baton
