#include "common/model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace baton {
namespace {

// Frequencies whose wavelength exceeds the original context are divided by the factor, those well
// inside it stay, those between are blended. transformers: _compute_llama3_parameters.
float Llama3Frequency(const RopeConfig& rope, float frequency) {
  const double original = static_cast<double>(rope.original_positions);
  const double wavelength = 2 * std::numbers::pi / frequency;
  if (wavelength < original / rope.high_freq_factor) return frequency;
  const float stretched = frequency / static_cast<float>(rope.factor);
  if (wavelength > original / rope.low_freq_factor) return stretched;
  const float smooth = static_cast<float>((original / wavelength - rope.low_freq_factor) /
                                          (rope.high_freq_factor - rope.low_freq_factor));
  return (1 - smooth) * stretched + smooth * frequency;
}

// Peng et al., "YaRN", 2023. transformers: _compute_yarn_parameters.
void StretchYarn(const RopeConfig& rope, int32_t head_dim, std::vector<float>& frequencies) {
  const auto dimension_of = [&](double rotations) {
    return head_dim *
           std::log(static_cast<double>(rope.original_positions) /
                    (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(rope.theta));
  };
  const double low = std::max(std::floor(dimension_of(rope.beta_fast)), 0.0);
  double high = std::min(std::ceil(dimension_of(rope.beta_slow)), head_dim - 1.0);
  if (low == high) high += 0.001;
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    const double kept = 1 - ramp;
    frequencies[i] =
        static_cast<float>(frequencies[i] / rope.factor * (1 - kept) + frequencies[i] * kept);
  }
}

}  // namespace

std::vector<float> RopeFrequencies(const RopeConfig& rope, int32_t head_dim) {
  std::vector<float> frequencies(head_dim / 2);
  for (int32_t i = 0; i < head_dim / 2; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(head_dim);
    frequencies[i] = 1.0F / std::pow(static_cast<float>(rope.theta), exponent);
  }
  switch (rope.scaling) {
    case RopeConfig::Scaling::kNone:
      for (size_t i = 0; i < rope.divisors.size(); ++i) frequencies[i] /= rope.divisors[i];
      break;
    case RopeConfig::Scaling::kLinear:
      for (float& frequency : frequencies) frequency /= static_cast<float>(rope.factor);
      break;
    case RopeConfig::Scaling::kLlama3:
      for (float& frequency : frequencies) frequency = Llama3Frequency(rope, frequency);
      break;
    case RopeConfig::Scaling::kYarn:
      StretchYarn(rope, head_dim, frequencies);
      break;
  }
  return frequencies;
}

}  // namespace baton
