#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/base/timer_queue.h"

namespace baton {

// What a process has done since it began, and what it has to do now.
struct LoadTotals {
  // A router's; a worker has no requests that end.
  struct Requests {
    uint64_t answered = 0;
    uint64_t failed = 0;
    bool operator==(const Requests&) const = default;
  };
  // A worker's.
  struct Cache {
    double usage = 0;                // share of blocks in use, 0 to 1
    uint64_t queries = 0, hits = 0;  // prompt tokens looked up and found
  };

  int64_t running = 0;
  int64_t waiting = 0;
  uint64_t prompt_tokens = 0;
  uint64_t generated_tokens = 0;
  std::optional<Requests> requests;
  std::optional<Cache> cache;
};

// Makes the periodic lines of the log that say what is served: one for each interval in which there
// was anything to do, one more when there is nothing any more, and then none.
class LoadMeter final {
 public:
  LoadMeter(const LoadTotals& totals, base::Instant now) : before_(totals), since_(now) {}

  // The line about the interval that ends now, if there is something to say.
  std::optional<std::string> Next(const LoadTotals& totals, base::Instant now);

 private:
  bool Idle(const LoadTotals& totals) const;

  LoadTotals before_;
  base::Instant since_;
  bool was_busy_ = false;
};

// Logs such lines at level info every `interval`, until `timers` stops; none when that is zero.
// `read` is called on the thread of `timers`, which it, like `clock`, outlives.
void LogLoadEvery(base::Duration interval, const base::Clock* clock, base::TimerQueue* timers,
                  std::function<LoadTotals()> read);

}  // namespace baton
