#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "tools/bench/plan/draws.h"

namespace baton::bench {

struct ArrivalOptions {
  double rate = 1;  // requests per second, on average; infinite: all at the start
  // Shape of the gamma distribution of the gaps: 1 = Poisson arrivals, below 1 more bursty, above
  // more even, infinity = constant gaps. The gaps' coefficient of variation is 1/sqrt(burstiness).
  double burstiness = 1;
  uint64_t seed = 0;
};

// INVALID_ARGUMENT unless rate and burstiness are positive.
absl::Status CheckArrivals(const ArrivalOptions& options);

// An endless sequence of arrival times. The first arrival comes one gap after the start. Gaps are
// as drawn: they are not re-scaled to make N arrivals take N/rate, so the offered rate of a short
// run differs from `rate` by chance, as in a service.
class Arrivals final {
 public:
  // `options` have passed CheckArrivals.
  explicit Arrivals(const ArrivalOptions& options);

  // When the next request arrives, since the start of the run; never decreases.
  base::Duration Next();

 private:
  double Gap();

  const ArrivalOptions options_;
  Draws draws_;
  int64_t count_ = 0;
  double at_s_ = 0;
};

}  // namespace baton::bench
