#include "tools/sim/span_means.h"

#include <algorithm>
#include <cstdint>

namespace baton::simulator {

void SpanMeans::Add(base::Duration length, double value) {
  const base::Duration until = now_ + length;
  while (until > every_ * kMost) Widen();
  while (now_ < until) {
    const auto span = static_cast<size_t>(now_ / every_);
    const base::Duration end = std::min(until, every_ * static_cast<int64_t>(span + 1));
    sums_.resize(std::max(sums_.size(), span + 1));
    sums_[span] += value * base::Seconds(end - now_);
    now_ = end;
  }
}

void SpanMeans::Widen() {
  for (size_t i = 0; 2 * i < sums_.size(); ++i) {
    sums_[i] = sums_[2 * i] + (2 * i + 1 < sums_.size() ? sums_[2 * i + 1] : 0);
  }
  sums_.resize((sums_.size() + 1) / 2);
  every_ *= 2;
}

std::vector<double> SpanMeans::Means() const {
  std::vector<double> means;
  means.reserve(sums_.size());
  for (size_t i = 0; i < sums_.size(); ++i) {
    const base::Duration begin = every_ * static_cast<int64_t>(i);
    means.push_back(sums_[i] / base::Seconds(std::min(every_, now_ - begin)));
  }
  return means;
}

}  // namespace baton::simulator
