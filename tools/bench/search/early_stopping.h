#pragma once

#include <cstdint>

namespace baton::bench {

// The early-stopping rule of MLPerf's LoadGen (tolerance 0): of n requests t were over the limit;
// the claim "at least p per cent of all requests are within the limit" stands with confidence c
// when so few violations would be seen with probability at most 1 - c if it were just false, that
// is P(Binomial(n, 1 - p) <= t) <= 1 - c.

// The smallest n at which t violations still pass. P99 at 99 %: 459 for none, 662 for one.
int64_t RequestsNeeded(int64_t violations, double percentile, double confidence = 0.99);

enum class Verdict {
  kPasses,
  kFails,      // with the same confidence: so many violations would hardly be seen if it were true
  kNeedsMore,  // neither
};

struct EarlyStop {
  Verdict verdict = Verdict::kNeedsMore;
  // With kNeedsMore, how many more requests let the point pass if violations go on at the rate seen
  // so far; 0 when at that rate it never passes, and more requests would only make that sure.
  int64_t more = 0;
};

// What the rule says of a sample, with `percentile` between 0 and 100. Without requests it is
// kNeedsMore.
EarlyStop JudgePercentile(int64_t requests, int64_t violations, double percentile,
                          double confidence = 0.99);

}  // namespace baton::bench
