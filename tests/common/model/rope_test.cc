#include "common/model/rope.h"

#include <cmath>
#include <vector>

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

// Values of transformers' own functions.
struct Known {
  const char* name;
  RopeConfig rope;
  std::vector<float> frequencies;
};

TEST(RopeTest, AgreesWithTransformers) {
  using Scaling = RopeConfig::Scaling;
  const Known cases[] = {
      {"linear",
       {.scaling = Scaling::kLinear, .theta = 10000, .factor = 2.5},
       {0.400000006, 0.1264911, 0.0399999991, 0.0126491114, 0.00399999972, 0.00126491114,
        0.000400000019, 0.000126491112}},
      {"llama3",
       {.scaling = Scaling::kLlama3, .theta = 500000, .factor = 8, .original_positions = 512},
       {1.0, 0.193922758, 0.0273441337, 0.000911583134, 0.000176776681, 3.42810235e-05,
        6.64786967e-06, 1.28917316e-06}},
      {"yarn",
       {.scaling = Scaling::kYarn, .theta = 1000000, .factor = 4, .original_positions = 4096},
       {1.0, 0.421696514, 0.177827939, 0.0749894157, 0.0268793609, 0.00933465082, 0.0030928771,
        0.000948549481, 0.000250000012, 0.000105424122, 4.44569851e-05, 1.87473561e-05,
        7.90569356e-06, 3.33380353e-06, 1.40585337e-06, 5.92843435e-07}},
      {"yarn with other ramps",
       {.scaling = Scaling::kYarn,
        .theta = 10000,
        .factor = 8,
        .original_positions = 1024,
        .beta_fast = 16,
        .beta_slow = 2},
       {1.0, 0.562341332, 0.316227764, 0.177827939, 0.100000001, 0.0439329147, 0.0177878123,
        0.00611283537, 0.00124999997, 0.000702926656, 0.000395284733, 0.000222284929,
        0.000125000006, 7.02926627e-05, 3.95284733e-05, 2.22284925e-05}},
  };
  for (const Known& known : cases) {
    const int32_t head_dim = static_cast<int32_t>(2 * known.frequencies.size());
    const auto actual = RopeFrequencies(known.rope, head_dim);
    for (size_t i = 0; i < actual.size(); ++i) {
      EXPECT_NEAR(actual[i] / known.frequencies[i], 1, 1e-6) << known.name << " " << i;
    }
  }
}

}  // namespace
}  // namespace baton
