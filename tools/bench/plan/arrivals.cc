#include "tools/bench/plan/arrivals.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/config/flag_set.h"

namespace baton::bench {
namespace {

// With a burstiness beyond this, gaps are constant to within 1 in 1000, and a gamma draw only adds
// noise of its own.
constexpr double kConstantFrom = 1e6;

}  // namespace

absl::Status CheckArrivals(const ArrivalOptions& options) {
  const bool all_at_once = std::isinf(options.rate) && options.rate > 0;
  if (!all_at_once && !(options.rate >= 1e-6 && options.rate <= 1e6)) {
    return UsageError(absl::StrCat("rate ", options.rate),
                      "expected requests per second, from 0.000001 to 1000000, or inf",
                      "--rate 10");
  }
  if (std::isnan(options.burstiness) || options.burstiness < 1e-3) {
    return UsageError(absl::StrCat("burstiness ", options.burstiness),
                      "expected at least 0.001: 1 is Poisson, inf is constant gaps",
                      "--burstiness 1");
  }
  return absl::OkStatus();
}

Arrivals::Arrivals(const ArrivalOptions& options)
    : options_(options), draws_(options.seed, Purpose::kArrivals) {
  BATON_CHECK(CheckArrivals(options).ok()) << options.rate << " " << options.burstiness;
}

double Arrivals::Gap() {
  if (options_.burstiness == 1) return draws_.Exponential() / options_.rate;
  return draws_.Gamma(options_.burstiness) / (options_.burstiness * options_.rate);
}

base::Duration Arrivals::Next() {
  ++count_;
  // A constant rate is not summed up from rounded gaps, so that the last arrival is exact, too.
  at_s_ = options_.burstiness >= kConstantFrom ? static_cast<double>(count_) / options_.rate
                                               : at_s_ + Gap();
  return std::chrono::nanoseconds(std::llround(std::min(at_s_, 9e9) * 1e9));
}

}  // namespace baton::bench
