#include "common/model/quantize/round_weights.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/float_convert.h"

namespace baton {
namespace {

// How far from the scale of the largest weight the search looks, and in how many steps.
constexpr float kLeastShare = 0.5F;
constexpr float kMostShare = 1.1F;
constexpr int kShares = 60;

float ToBf16(float value) { return kernels::FloatFromBf16(kernels::Bf16FromFloat(value)); }

// The largest integer is one less than the smallest is below zero.
float Round(float weight, float inverse, float half) {
  return std::clamp(std::nearbyint(weight * inverse), -half, half - 1);
}

double SquaredError(std::span<const float> weights, float scale, float half) {
  const float inverse = 1 / scale;
  double sum = 0;
  for (const float weight : weights) {
    const double error = weight - Round(weight, inverse, half) * scale;
    sum += error * error;
  }
  return sum;
}

// The scale that, with the integers of `scale`, has the smallest error.
float Fitted(std::span<const float> weights, float scale, float half) {
  const float inverse = 1 / scale;
  double products = 0;
  double squares = 0;
  for (const float weight : weights) {
    const double code = Round(weight, inverse, half);
    products += weight * code;
    squares += code * code;
  }
  return squares > 0 ? static_cast<float>(products / squares) : scale;
}

}  // namespace

float RoundGroup(std::span<const float> weights, const RoundingScheme& scheme,
                 std::span<int8_t> codes) {
  const auto half = static_cast<float>(1 << (scheme.bits - 1));
  float largest = 0;
  for (const float weight : weights) largest = std::max(largest, std::abs(weight));
  float scale = ToBf16(largest / (half - 0.5F));
  // What a bf16 cannot hold as a scale is as good as zero.
  if (scale < 0x1.0p-120F) {
    std::fill(codes.begin(), codes.end(), int8_t{0});
    return 0;
  }
  if (scheme.method == RoundingMethod::kSearch) {
    const float widest = scale;
    double least = SquaredError(weights, scale, half);
    for (int i = 0; i <= kShares; ++i) {
      const float share =
          kLeastShare + (kMostShare - kLeastShare) * static_cast<float>(i) / kShares;
      const float tried = ToBf16(Fitted(weights, widest * share, half));
      if (tried < 0x1.0p-120F) continue;
      const double error = SquaredError(weights, tried, half);
      if (error >= least) continue;
      least = error;
      scale = tried;
    }
  }
  const float inverse = 1 / scale;
  for (size_t i = 0; i < weights.size(); ++i) {
    codes[i] = static_cast<int8_t>(Round(weights[i], inverse, half));
  }
  return scale;
}

float RoundFp8Row(std::span<const float> weights, std::span<uint8_t> codes) {
  constexpr float kLargest = 448;
  float largest = 0;
  for (const float weight : weights) largest = std::max(largest, std::fabs(weight));
  // Of a row of zeros, or of less than scales of fp32 without denormals reach, any scale will do.
  const float scale =
      largest / kLargest >= std::numeric_limits<float>::min() ? largest / kLargest : 1;
  for (size_t i = 0; i < weights.size(); ++i) {
    codes[i] = kernels::E4m3FromFloat(weights[i] / scale);
  }
  return scale;
}

}  // namespace baton
