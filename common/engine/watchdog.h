#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace baton {

// Calls `on_stall` once when the engine's thread is at work and nothing shows for `timeout` that it
// gets on. Has a thread of its own, since the engine's is then stuck.
//
// At work is whoever takes commands, plans, hands a step to the device or waits for it, commits, or
// makes events of the outcome. It gets on when it comes to its next piece of work (`Works`) or when
// the device finishes an operation, of which a long step has many.
//
// No stall is what may last (`Rests`): there is nothing to compute and no command comes; or the
// queue of events is full, because the owner does not read. That is the owner's trouble and not a
// reason to give up a device. Nor is it one that the whole process was stopped for a while or that
// a busy machine did not run it: the engine gets several looks to show that it lives.
class Watchdog {
 public:
  // `operations` says how many the device has finished.
  Watchdog(std::function<uint64_t()> operations, const base::Clock* clock, base::Duration timeout,
           std::function<void()> on_stall);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Called by the engine's thread, which rests at first.
  void Works() { ++signs_, resting_ = false; }
  void Rests() { resting_ = true; }

 private:
  void Run();

  const std::function<uint64_t()> operations_;
  const base::Clock* const clock_;
  const base::Duration timeout_;
  const std::function<void()> on_stall_;
  std::atomic<bool> resting_{true};
  std::atomic<uint64_t> signs_{0};
  base::Mutex mutex_;
  base::CondVar stopped_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace baton
