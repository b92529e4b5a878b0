#include "router/page/recent_figures.h"

#include <algorithm>
#include <cmath>

namespace baton {
namespace {

constexpr double kLowestMs = 0.1;
constexpr double kBinsPerDecade = 16;
constexpr std::array<double, 3> kQuantiles = {0.5, 0.95, 0.99};

}  // namespace

void TimeBins::Add(base::Duration time) {
  const double ms = std::max(kLowestMs, base::Milliseconds(time));
  const double bin = kBinsPerDecade * std::log10(ms / kLowestMs);
  const auto at = static_cast<size_t>(std::min(bin, double{kBins - 1}));
  counts_[at].fetch_add(1, std::memory_order_relaxed);
}

TimeBins::Counts TimeBins::Take() {
  Counts taken;
  for (size_t i = 0; i < kBins; ++i) taken[i] = counts_[i].exchange(0, std::memory_order_relaxed);
  return taken;
}

double TimeBins::QuantileMs(const Counts& counts, double q) {
  uint64_t all = 0;
  for (const uint32_t count : counts) all += count;
  if (all == 0) return 0;
  const double wanted = q * static_cast<double>(all);
  double below = 0;
  size_t bin = 0;
  while (bin + 1 < kBins && below + counts[bin] < wanted) below += counts[bin++];
  // The geometric middle of the bin.
  return kLowestMs * std::pow(10, (static_cast<double>(bin) + 0.5) / kBinsPerDecade);
}

void RecentFigures::FirstToken(base::Duration since_arrival) {
  ttft_.Add(since_arrival);
  output_tokens_.fetch_add(1, std::memory_order_relaxed);
}

void RecentFigures::NextToken(base::Duration since_last) {
  gap_.Add(since_last);
  output_tokens_.fetch_add(1, std::memory_order_relaxed);
}

void RecentFigures::Tick() {
  const double seconds = base::Seconds(kEvery);
  Point point{.requests = requests_.exchange(0) / seconds,
              .prompt_tokens = prompt_tokens_.exchange(0) / seconds,
              .output_tokens = output_tokens_.exchange(0) / seconds};
  base::MutexLock lock(&mutex_);
  counted_.push_back({.ttft = ttft_.Take(), .gap = gap_.Take()});
  if (counted_.size() > kSmooth) counted_.pop_front();
  Counted sum;
  for (const Counted& counted : counted_) {
    for (size_t i = 0; i < TimeBins::kBins; ++i) {
      sum.ttft[i] += counted.ttft[i];
      sum.gap[i] += counted.gap[i];
    }
  }
  for (size_t i = 0; i < kQuantiles.size(); ++i) {
    point.ttft_ms[i] = TimeBins::QuantileMs(sum.ttft, kQuantiles[i]);
    point.gap_ms[i] = TimeBins::QuantileMs(sum.gap, kQuantiles[i]);
  }
  points_.push_back(point);
  if (points_.size() > kPoints) points_.pop_front();
}

std::vector<RecentFigures::Point> RecentFigures::Points() const {
  base::MutexLock lock(&mutex_);
  return {points_.begin(), points_.end()};
}

}  // namespace baton
