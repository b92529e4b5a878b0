#include "tools/generate/wait_notice.h"

#include <chrono>
#include <utility>

namespace baton {

WaitNotice::WaitNotice(base::Duration after, std::function<std::string()> ask,
                       std::function<void(const std::string&)> tell)
    : thread_([this, after, ask = std::move(ask), tell = std::move(tell)] {
        if (WaitEnded(after)) return;
        const std::string what = ask();
        base::MutexLock lock(&mutex_);
        if (!ended_) tell(what);
      }) {}

WaitNotice::~WaitNotice() {
  End();
  thread_.join();
}

void WaitNotice::End() {
  base::MutexLock lock(&mutex_);
  ended_ = true;
  changed_.NotifyAll();
}

bool WaitNotice::WaitEnded(base::Duration time) {
  const auto deadline = std::chrono::steady_clock::now() + time;
  base::MutexLock lock(&mutex_);
  while (!ended_) {
    if (!changed_.WaitUntil(&mutex_, deadline)) return ended_;
  }
  return true;
}

}  // namespace baton
