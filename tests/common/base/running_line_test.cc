#include "common/base/running_line.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(RunningLineTest, FindsTheLineThroughItsPoints) {
  RunningLine line(0.9);
  for (const double x : {10.0, 400.0, 30.0, 1000.0, 5.0}) line.Add(x, 7 + 0.5 * x);
  EXPECT_EQ(line.points(), 5);
  EXPECT_NEAR(line.slope(), 0.5, 1e-9);
  EXPECT_NEAR(line.at_zero(), 7, 1e-6);
}

TEST(RunningLineTest, OfEqualPointsItGoesThroughTheOrigin) {
  RunningLine line(0.9);
  for (int i = 0; i < 5; ++i) line.Add(2048, 70);
  EXPECT_NEAR(line.slope(), 70.0 / 2048, 1e-9);
  EXPECT_NEAR(line.at_zero(), 0, 1e-9);
}

TEST(RunningLineTest, WhatIsNewCountsMore) {
  RunningLine line(0.5);
  for (const double x : {1.0, 2.0, 3.0, 4.0}) line.Add(x, x);
  for (int i = 0; i < 20; ++i) line.Add(1 + i % 4, 3.0 * (1 + i % 4));
  EXPECT_NEAR(line.slope(), 3, 1e-3);
}

TEST(RunningLineTest, NothingIsBelowZero) {
  RunningLine falling(1);
  falling.Add(1, 10);
  falling.Add(2, 1);
  EXPECT_EQ(falling.slope(), 0);
  EXPECT_GT(falling.at_zero(), 0);
  RunningLine steep(1);  // would begin at -10
  steep.Add(10, 0);
  steep.Add(20, 10);
  EXPECT_NEAR(steep.slope(), 0.4, 1e-9);
  EXPECT_NEAR(steep.at_zero(), 0, 1e-9);
}

TEST(RunningLineTest, WithoutPointsIsZero) {
  const RunningLine line(0.9);
  EXPECT_EQ(line.slope(), 0);
  EXPECT_EQ(line.at_zero(), 0);
}

}  // namespace
}  // namespace baton
