#include "common/admin/connection_threads.h"

#include <utility>

namespace baton {

void ConnectionThreads::enqueue(std::function<void()> connection) {
  base::MutexLock lock(&mutex_);
  while (open_ >= most_) ended_.Wait(&mutex_);
  ++open_;
  waiting_.push_back(std::move(connection));
  if (threads_.size() < open_) {
    threads_.emplace_back([this] { Run(); });
  } else {
    arrived_.NotifyOne();
  }
}

void ConnectionThreads::shutdown() {
  {
    base::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  arrived_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
}

void ConnectionThreads::Run() {
  mutex_.Lock();
  while (true) {
    while (waiting_.empty() && !stopping_) arrived_.Wait(&mutex_);
    if (waiting_.empty()) break;
    std::function<void()> connection = std::move(waiting_.front());
    waiting_.pop_front();
    mutex_.Unlock();
    connection();
    connection = nullptr;
    mutex_.Lock();
    --open_;
    ended_.NotifyOne();
  }
  mutex_.Unlock();
}

}  // namespace baton
