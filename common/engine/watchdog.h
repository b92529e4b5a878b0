#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/model/model_runner.h"

namespace baton {

// Calls `on_stall` once when the engine is in a call that waits for the device and no operation
// finished for `timeout`. Has a thread of its own, since the engine's is then stuck.
class Watchdog {
 public:
  Watchdog(const ModelRunner* runner, const base::Clock* clock, base::Duration timeout,
           std::function<void()> on_stall);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void StepBegins() { ++steps_, in_step_ = true; }
  void StepEnds() { in_step_ = false; }

 private:
  void Run();

  const ModelRunner* const runner_;
  const base::Clock* const clock_;
  const base::Duration timeout_;
  const std::function<void()> on_stall_;
  std::atomic<bool> in_step_{false};
  std::atomic<uint64_t> steps_{0};
  base::Mutex mutex_;
  base::CondVar stopped_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace baton
