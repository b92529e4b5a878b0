#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/end_estimate.h"

// Remaining tokens in bins, and what the hazards of bins say about an end. A model gives a logit
// for each bin but the last, of h = P(remaining in the bin | not below it); in the last bin
// everything ends.
namespace baton {

// The last number of each bin but the last, which has none.
inline constexpr std::array<int32_t, 10> kBinEnds = {1, 2, 4, 8, 16, 32, 64, 128, 256, 1024};
inline constexpr size_t kBins = kBinEnds.size();
using EndLogits = std::array<double, kBins>;
// P(remaining <= end of the bin), ascending.
using EndChances = std::array<double, kBins>;

// Corrects one logit: linear between its points, constant outside of them.
struct Calibration {
  std::vector<double> x, y;  // x ascending; both empty: corrects nothing

  // Of a number; what is none has no place between the points.
  double Apply(double logit) const;
};
using Calibrations = std::array<Calibration, kBins>;

EndChances ChancesOf(const EndLogits& logits);

// Everything that an estimate says. The tokens of a bin are alike likely, those of the last one
// around `tail_mean`, which is more than kBinEnds.back() + 1. The chances are of the tokens behind
// `barred` ones that cannot be the end.
EndEstimate EstimateOf(const EndChances& chances, double tail_mean, int32_t at_step,
                       PredictorKind kind, int32_t barred = 0);

}  // namespace baton
