#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace baton {

// Times in bins that grow by a sixteenth of a decade, from 0.1 ms to 1000 s.
class TimeBins final {
 public:
  static constexpr size_t kBins = 7 * 16;
  using Counts = std::array<uint32_t, kBins>;

  // Lock-free.
  void Add(base::Duration time);
  // What was added since the last call. One caller at a time.
  Counts Take();
  // The time in milliseconds below which the share `q` of `counts` lies, within 8 %; 0 without any.
  static double QuantileMs(const Counts& counts, double q);

 private:
  std::array<std::atomic<uint32_t>, kBins> counts_{};
};

// What a router did over the last minutes, for its page. Events only add to atomic counters, so
// that the way of a token waits for nobody; Tick, called every kEvery, moves them into a bounded
// ring. Thread-safe.
class RecentFigures final {
 public:
  static constexpr base::Duration kEvery = std::chrono::seconds(2);
  static constexpr size_t kPoints = 150;  // five minutes
  static constexpr size_t kSmooth = 5;    // points that quantiles look back over

  void RequestReceived() { requests_.fetch_add(1, std::memory_order_relaxed); }
  void PromptTokens(int32_t tokens) {
    prompt_tokens_.fetch_add(static_cast<uint32_t>(tokens), std::memory_order_relaxed);
  }
  void FirstToken(base::Duration since_arrival);
  void NextToken(base::Duration since_last);
  void Tick();

  // One interval of kEvery. Rates are per second; times in milliseconds are quantiles of the last
  // kSmooth intervals, 0 where nothing happened in these.
  struct Point {
    double requests = 0, prompt_tokens = 0, output_tokens = 0;
    std::array<double, 3> ttft_ms{}, gap_ms{};  // p50, p95, p99
  };
  // The oldest first, at most kPoints.
  std::vector<Point> Points() const;

 private:
  struct Counted {
    TimeBins::Counts ttft{}, gap{};
  };

  std::atomic<uint32_t> requests_{0}, prompt_tokens_{0}, output_tokens_{0};
  TimeBins ttft_, gap_;
  mutable base::Mutex mutex_;  // never taken by an event
  std::deque<Point> points_ ABSL_GUARDED_BY(mutex_);
  std::deque<Counted> counted_ ABSL_GUARDED_BY(mutex_);  // the last kSmooth
};

}  // namespace baton
