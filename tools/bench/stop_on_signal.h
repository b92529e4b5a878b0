#pragma once

#include <atomic>
#include <thread>

#include "common/base/stop_signals.h"

namespace baton::bench {

// Turns the first SIGINT or SIGTERM into a flag, so that a run ends and what was measured is kept;
// the second ends the process at once. Made before any other thread is started.
class StopOnSignal final {
 public:
  // `told` is printed when the first one comes.
  explicit StopOnSignal(const char* told = "stopping; what was measured is kept");
  ~StopOnSignal();
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;

  const std::atomic<bool>& stop() const { return stop_; }

 private:
  void Watch();

  const char* const told_;
  base::StopSignals signals_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> done_{false};
  std::thread watcher_;
};

}  // namespace baton::bench
