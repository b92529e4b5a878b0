#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/timer_queue.h"

namespace baton {

// Shows that a long load lives: a line when a phase of it has lasted two seconds and then every
// few, none for a short one; and always one when the weights are there. Thread-safe.
class LoadProgressLog final {
 public:
  // `clock` outlives it; `say` gets a line at a time.
  LoadProgressLog(const base::Clock* clock, std::function<void(const std::string&)> say);

  // A phase begins, as "loading weights", and the one before it is over.
  void Begin(const std::string& phase);
  // Bytes of the weights that are loaded, and all of them.
  void Note(int64_t done, int64_t total);
  // The load is over.
  void End() { Begin(""); }

  // Says what has lasted for long; to be called every second or so.
  void Tick();
  // What goes on and how far it is: "loading weights: 12 % of 80.0 MiB". Empty when nothing does.
  std::string Doing() const;

 private:
  std::string Describe() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const base::Clock* const clock_;
  const std::function<void(const std::string&)> say_;
  mutable base::Mutex mutex_;
  std::string phase_ ABSL_GUARDED_BY(mutex_);
  int64_t done_ ABSL_GUARDED_BY(mutex_) = 0;   // bytes of this phase
  int64_t total_ ABSL_GUARDED_BY(mutex_) = 0;  // 0: it does not count bytes
  base::Instant begin_ ABSL_GUARDED_BY(mutex_){};
  base::Instant next_ ABSL_GUARDED_BY(mutex_) = base::kNever;  // line
  bool loaded_ ABSL_GUARDED_BY(mutex_) = false;                // the weights are there
};

// Ticks while it exists, from a thread of its own, because most phases say nothing themselves.
class LoadProgressTicks final {
 public:
  LoadProgressTicks(LoadProgressLog* log, const base::Clock* clock);

 private:
  void Arm();

  LoadProgressLog* const log_;
  base::TimerQueue timers_;
};

}  // namespace baton
