#include "tools/bench/search/early_stopping.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "common/base/check.h"
#include "tools/bench/figures/statistics.h"

namespace baton::bench {
namespace {

constexpr int64_t kMost = int64_t{1} << 40;

// P(Binomial(n, q) <= t) for real 0 <= t < n, which is how a rate is carried to other n.
double AtMost(double n, double q, double t) { return IncompleteBeta(n - t, t + 1, 1 - q); }

// The smallest n in (low, kMost] at which `holds`, which is false and then true; 0 when it never
// is.
int64_t FirstWhere(int64_t low, const std::function<bool(int64_t)>& holds) {
  int64_t step = 1;
  while (low + step < kMost && !holds(low + step)) {
    low += step;
    step *= 2;
  }
  int64_t high = low + step;
  if (high >= kMost) return 0;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (holds(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace

int64_t RequestsNeeded(int64_t violations, double percentile, double confidence) {
  BATON_CHECK(violations >= 0 && percentile > 0 && percentile < 100);
  const double q = 1 - percentile / 100;
  const auto t = static_cast<double>(violations);
  return FirstWhere(violations, [&](int64_t n) {
    return AtMost(static_cast<double>(n), q, t) <= 1 - confidence;
  });
}

EarlyStop JudgePercentile(int64_t requests, int64_t violations, double percentile,
                          double confidence) {
  BATON_CHECK(violations >= 0 && violations <= requests && percentile > 0 && percentile < 100);
  const double q = 1 - percentile / 100;
  const auto n = static_cast<double>(requests);
  const auto t = static_cast<double>(violations);
  if (violations < requests && AtMost(n, q, t) <= 1 - confidence) return {Verdict::kPasses, 0};
  // P(X >= t)
  if (violations > 0 && IncompleteBeta(t, n - t + 1, q) <= 1 - confidence) {
    return {Verdict::kFails, 0};
  }
  if (requests == 0) return {Verdict::kNeedsMore, RequestsNeeded(0, percentile, confidence)};
  const double rate = t / n;
  if (rate >= q) return {Verdict::kNeedsMore, 0};
  const int64_t enough = FirstWhere(requests, [&](int64_t m) {
    const auto more = static_cast<double>(m);
    return AtMost(more, q, rate * more) <= 1 - confidence;
  });
  return {Verdict::kNeedsMore, std::max<int64_t>(0, enough - requests)};
}

}  // namespace baton::bench
