#pragma once

#include <signal.h>

#include <chrono>
#include <ctime>

namespace baton::base {

// SIGTERM and SIGINT, which ask a process to drain. To be made before any other thread is started.
class StopSignals final {
 public:
  // `timeout` and shells may send a signal twice; what comes so soon is the first one.
  static constexpr std::chrono::milliseconds kSentTwice{100};

  // Blocks them in this thread and those it starts, and ignores SIGPIPE.
  StopSignals() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGTERM);
    sigaddset(&set_, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    signal(SIGPIPE, SIG_IGN);
  }
  // True when one arrived within `wait`.
  bool Arrived(std::chrono::nanoseconds wait) const {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(wait);
    const timespec limit{.tv_sec = seconds.count(), .tv_nsec = (wait - seconds).count()};
    return sigtimedwait(&set_, nullptr, &limit) > 0;
  }
  // Takes those that arrived.
  void Drop() const {
    while (Arrived(std::chrono::nanoseconds(0))) {
    }
  }
  void Wait() const {
    int which = 0;
    sigwait(&set_, &which);
  }

 private:
  sigset_t set_{};
};

}  // namespace baton::base
