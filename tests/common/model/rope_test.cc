#include "common/model/rope.h"

#include <cmath>

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(RopeTest, PlainFrequenciesArePowersOfTheta) {
  const auto frequencies = RopeFrequencies({.theta = 10000}, 8);
  ASSERT_EQ(frequencies.size(), 4U);
  for (int i = 0; i < 4; ++i) EXPECT_FLOAT_EQ(frequencies[i], std::pow(10000.0, -2.0 * i / 8));
}

TEST(RopeTest, LinearScalingDividesAll) {
  const auto plain = RopeFrequencies({.theta = 10000}, 64);
  const auto scaled =
      RopeFrequencies({.scaling = RopeConfig::Scaling::kLinear, .theta = 10000, .factor = 4}, 64);
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_FLOAT_EQ(scaled[i], plain[i] / 4);
}

TEST(RopeTest, Llama3KeepsShortWavesAndStretchesLongOnes) {
  const RopeConfig rope = {.scaling = RopeConfig::Scaling::kLlama3,
                           .theta = 500000,
                           .factor = 8,
                           .original_positions = 8192,
                           .low_freq_factor = 1,
                           .high_freq_factor = 4};
  const auto plain = RopeFrequencies({.theta = 500000}, 128);
  const auto scaled = RopeFrequencies(rope, 128);
  int blended = 0;
  for (size_t i = 0; i < plain.size(); ++i) {
    const double wavelength = 2 * M_PI / plain[i];
    if (wavelength < 2048) {
      EXPECT_FLOAT_EQ(scaled[i], plain[i]);
    } else if (wavelength > 8192) {
      EXPECT_FLOAT_EQ(scaled[i], plain[i] / 8);
    } else {
      ++blended;
      EXPECT_TRUE(scaled[i] < plain[i] && scaled[i] > plain[i] / 8) << i;
    }
  }
  EXPECT_GT(blended, 0);
}

TEST(RopeTest, YarnBlendsFromKeptToStretched) {
  const auto plain = RopeFrequencies({.theta = 1000000}, 128);
  const auto scaled = RopeFrequencies({.scaling = RopeConfig::Scaling::kYarn,
                                       .theta = 1000000,
                                       .factor = 4,
                                       .original_positions = 32768},
                                      128);
  EXPECT_FLOAT_EQ(scaled.front(), plain.front());
  EXPECT_FLOAT_EQ(scaled.back(), plain.back() / 4);
  for (size_t i = 1; i < plain.size(); ++i) {
    EXPECT_LE(scaled[i] / plain[i], scaled[i - 1] / plain[i - 1] * 1.00001F) << i;
  }
}

}  // namespace
}  // namespace baton
