#include "common/eos/predict/end_bins.h"

#include <algorithm>
#include <cmath>

namespace baton {
namespace {

double Sigmoid(double z) {
  const double low = std::exp(-std::abs(z));
  return z >= 0 ? 1 / (1 + low) : low / (1 + low);
}

// Of a quantile in tokens: what is a whole number but for that is one.
constexpr double kRounding = 1e-9;

// The smallest whole x with P(remaining <= x) >= q.
double Quantile(const EndChances& chances, double tail_mean, double q) {
  double low_x = 0, low_p = 0;
  for (size_t bin = 0; bin <= kBins; ++bin) {
    const bool last = bin == kBins;
    const double x = last ? 2 * tail_mean - (kBinEnds.back() + 1) : kBinEnds[bin];
    const double p = last ? 1 : chances[bin];
    if (p >= q) return std::ceil(low_x + (q - low_p) / (p - low_p) * (x - low_x) - kRounding);
    low_x = x;
    low_p = p;
  }
  return low_x;
}

// P(remaining <= x).
double Within(const EndChances& chances, int32_t x) {
  int32_t low_x = 0;
  double low_p = 0;
  for (size_t bin = 0; bin < kBins && x > 0; ++bin) {
    if (x == kBinEnds[bin]) return chances[bin];
    if (x < kBinEnds[bin]) {
      return low_p + (chances[bin] - low_p) * (x - low_x) / (kBinEnds[bin] - low_x);
    }
    low_x = kBinEnds[bin];
    low_p = chances[bin];
  }
  return low_p;
}

}  // namespace

double Calibration::Apply(double logit) const {
  if (x.empty()) return logit;
  const auto above = std::upper_bound(x.begin(), x.end(), logit);
  if (above == x.begin()) return y.front();
  if (above == x.end()) return y.back();
  const auto at = static_cast<size_t>(above - x.begin());
  const double share = (logit - x[at - 1]) / (x[at] - x[at - 1]);
  return y[at - 1] + share * (y[at] - y[at - 1]);
}

EndChances ChancesOf(const EndLogits& logits) {
  EndChances chances{};
  double goes_on = 1;
  for (size_t bin = 0; bin < kBins; ++bin) {
    goes_on *= 1 - Sigmoid(logits[bin]);
    chances[bin] = 1 - goes_on;
  }
  return chances;
}

EndEstimate EstimateOf(const EndChances& chances, double tail_mean, int32_t at_step,
                       PredictorKind kind, int32_t barred) {
  EndEstimate estimate{.at_step = at_step, .kind = kind};
  double expected = barred, before = 0;
  int32_t first = 1;
  for (size_t bin = 0; bin < kBins; ++bin) {
    expected += (chances[bin] - before) * (first + kBinEnds[bin]) / 2;
    before = chances[bin];
    first = kBinEnds[bin] + 1;
  }
  for (size_t i = 0; i < kEndHorizons.size(); ++i) {
    estimate.p_within[i] = static_cast<float>(Within(chances, kEndHorizons[i] - barred));
  }
  expected += (1 - before) * tail_mean;
  estimate.expected_remaining = static_cast<float>(expected);
  estimate.p50 = static_cast<float>(barred + Quantile(chances, tail_mean, 0.5));
  estimate.p90 = static_cast<float>(barred + Quantile(chances, tail_mean, 0.9));
  return estimate;
}

}  // namespace baton
