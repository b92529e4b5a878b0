#pragma once

#include "common/base/clock.h"

namespace baton {

// An amount per second of wall time in which the last seconds count most: what was added loses half
// of its weight every `half_life`. Falls to 0 when nothing is added. Not thread-safe.
class DecayingRate final {
 public:
  DecayingRate(base::Duration half_life, base::Instant start)
      : half_life_(half_life), start_(start), last_(start) {}

  void Add(double amount, base::Instant now);
  double PerSecond(base::Instant now) const;

 private:
  double Kept(base::Duration passed) const;  // share of the weight that is left

  const base::Duration half_life_;
  const base::Instant start_;
  base::Instant last_;  // when sum_ was right
  double sum_ = 0;
};

}  // namespace baton
