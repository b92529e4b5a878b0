#include "common/metrics/decaying_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace baton {

double DecayingRate::Kept(base::Duration passed) const {
  return std::exp2(-std::max(0.0, base::Seconds(passed)) / base::Seconds(half_life_));
}

void DecayingRate::Add(double amount, base::Instant now) {
  sum_ = sum_ * Kept(now - last_) + amount;
  last_ = now;
}

double DecayingRate::PerSecond(base::Instant now) const {
  // The weight of all time since the start, in seconds: what a constant rate of 1 would sum up to.
  const double weight =
      base::Seconds(half_life_) / std::numbers::ln2 * (1 - Kept(std::max(now, last_) - start_));
  return weight > 0 ? sum_ * Kept(now - last_) / weight : 0;
}

}  // namespace baton
