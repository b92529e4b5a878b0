#include "common/metrics/decaying_rate.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(DecayingRateTest, ASteadyRateIsSeenFromTheStart) {
  base::ManualClock clock;
  DecayingRate rate(seconds(5), clock.Now());
  EXPECT_EQ(rate.PerSecond(clock.Now()), 0);
  for (int step = 1; step <= 3000; ++step) {
    clock.Advance(milliseconds(10));
    rate.Add(2, clock.Now());
    EXPECT_NEAR(rate.PerSecond(clock.Now()), 200, 2) << step;
  }
}

TEST(DecayingRateTest, FallsByHalfInAHalfLifeAndToZero) {
  base::ManualClock clock;
  DecayingRate rate(seconds(5), clock.Now());
  clock.Advance(seconds(100));
  rate.Add(100, clock.Now());
  const double before = rate.PerSecond(clock.Now());
  clock.Advance(seconds(5));
  EXPECT_NEAR(rate.PerSecond(clock.Now()), before / 2, before * 1e-3);
  clock.Advance(seconds(300));
  EXPECT_LT(rate.PerSecond(clock.Now()), before * 1e-9);
}

}  // namespace
}  // namespace baton
