#include "tools/eos/distributions.h"

#include <cmath>

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(Lengths, QuantilesAreExact) {
  Lengths lengths;
  EXPECT_EQ(lengths.Quantile(0.5), 0);
  for (int32_t length = 100; length >= 1; --length) lengths.Add(length);
  EXPECT_EQ(lengths.Quantile(0.0), 1);
  EXPECT_EQ(lengths.Quantile(0.5), 50);
  EXPECT_EQ(lengths.Quantile(0.9), 90);
  EXPECT_EQ(lengths.Quantile(0.99), 99);
  EXPECT_EQ(lengths.Quantile(1.0), 100);
  EXPECT_EQ(lengths.moments().mean(), 50.5);
  EXPECT_EQ(lengths.moments().max(), 100);
  EXPECT_EQ(lengths.CountAbove(99), 1);
  EXPECT_EQ(lengths.CountAbove(100), 0);
  EXPECT_EQ(lengths.CountAbove(0), 100);
}

TEST(Probabilities, QuantilesAreWithinHalfAPercentOfThemselves) {
  for (const double probability : {1.0, 0.99, 0.5, 0.1, 0.00321, 1e-7, 1e-12}) {
    Probabilities probabilities;
    probabilities.Add(probability);
    probabilities.Add(probability);
    probabilities.Add(1.0);
    EXPECT_NEAR(probabilities.Quantile(0.5), probability, 0.0051 * probability);
    EXPECT_EQ(probabilities.Quantile(1.0), 1.0);
  }
}

TEST(Probabilities, WhatIsNearlyImpossibleIsZero) {
  Probabilities probabilities;
  EXPECT_EQ(probabilities.Quantile(0.5), 0);
  for (const double probability : {0.0, 1e-20, 0.5, 0.5}) probabilities.Add(probability);
  EXPECT_EQ(probabilities.Quantile(0.5), 0);
  EXPECT_NEAR(probabilities.Quantile(0.75), 0.5, 0.003);
  EXPECT_EQ(probabilities.moments().mean(), 0.25);
}

}  // namespace
}  // namespace baton
