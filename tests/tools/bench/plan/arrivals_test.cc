#include "tools/bench/plan/arrivals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace baton::bench {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Gaps {
  double mean = 0;
  double variation = 0;  // standard deviation / mean
};

Gaps Measure(double rate, double burstiness, int count) {
  Arrivals arrivals({.rate = rate, .burstiness = burstiness, .seed = 11});
  double last = 0, sum = 0, squares = 0;
  for (int i = 0; i < count; ++i) {
    const double at = base::Seconds(arrivals.Next());
    EXPECT_GE(at, last);
    sum += at - last;
    squares += (at - last) * (at - last);
    last = at;
  }
  const double mean = sum / count;
  return {mean, std::sqrt(squares / count - mean * mean) / mean};
}

TEST(ArrivalsTest, PoissonGapsHaveTheRateAndVariationOne) {
  const Gaps gaps = Measure(20, 1, 200000);
  EXPECT_NEAR(gaps.mean, 0.05, 0.0005);
  EXPECT_NEAR(gaps.variation, 1, 0.01);
}

TEST(ArrivalsTest, BurstinessSetsTheVariation) {
  for (const double burstiness : {0.25, 0.5, 4.0, 100.0}) {
    const Gaps gaps = Measure(20, burstiness, 200000);
    EXPECT_NEAR(gaps.mean, 0.05, 0.001) << burstiness;
    EXPECT_NEAR(gaps.variation * std::sqrt(burstiness), 1, 0.02) << burstiness;
  }
}

// A Poisson process counts Poisson(rate * t) arrivals in a window: mean and variance agree.
TEST(ArrivalsTest, PoissonCountsVaryAsTheyShould) {
  Arrivals arrivals({.rate = 10, .seed = 5});
  constexpr int kWindows = 20000;
  std::vector<int> counts(kWindows);
  while (true) {
    const auto window = static_cast<size_t>(base::Seconds(arrivals.Next()));
    if (window >= counts.size()) break;
    ++counts[window];
  }
  double sum = 0, squares = 0;
  for (const int n : counts) {
    sum += n;
    squares += static_cast<double>(n) * n;
  }
  const double mean = sum / kWindows;
  EXPECT_NEAR(mean, 10, 0.1);
  EXPECT_NEAR(squares / kWindows - mean * mean, 10, 0.4);
}

TEST(ArrivalsTest, InfiniteBurstinessIsConstantAndDoesNotDrift) {
  Arrivals arrivals({.rate = 3, .burstiness = kInfinity, .seed = 1});
  base::Duration last{};
  for (int i = 0; i < 30000; ++i) last = arrivals.Next();
  EXPECT_EQ(last, std::chrono::seconds(10000));
}

TEST(ArrivalsTest, GapsAreNotScaledToTheNumberOfRequests) {
  Arrivals arrivals({.rate = 10, .seed = 3});
  base::Duration last{};
  for (int i = 0; i < 100; ++i) last = arrivals.Next();
  EXPECT_NE(last, std::chrono::seconds(10));
  EXPECT_NEAR(base::Seconds(last), 10, 4);
}

TEST(ArrivalsTest, EqualSeedsGiveEqualTimesAndOthersOthers) {
  Arrivals one({.rate = 7, .seed = 1}), again({.rate = 7, .seed = 1}),
      other({.rate = 7, .seed = 2});
  for (int i = 0; i < 100; ++i) {
    const base::Duration at = one.Next();
    EXPECT_EQ(at, again.Next());
    EXPECT_NE(at, other.Next());
  }
}

TEST(ArrivalsTest, RefusesWhatIsNoRate) {
  for (const double rate : {0.0, -1.0, std::nan(""), 1e9}) {
    EXPECT_FALSE(CheckArrivals({.rate = rate}).ok()) << rate;
  }
  for (const double burstiness : {0.0, -1.0, std::nan("")}) {
    EXPECT_FALSE(CheckArrivals({.rate = 1, .burstiness = burstiness}).ok()) << burstiness;
  }
  EXPECT_TRUE(CheckArrivals({.rate = 1, .burstiness = kInfinity}).ok());
}

TEST(Arrivals, AnInfiniteRateHasAllAtTheStart) {
  const ArrivalOptions options{.rate = kInfinity};
  ASSERT_TRUE(CheckArrivals(options).ok());
  Arrivals arrivals(options);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(arrivals.Next(), base::Duration::zero());
  EXPECT_FALSE(CheckArrivals({.rate = -kInfinity}).ok());
  EXPECT_FALSE(CheckArrivals({.rate = std::numeric_limits<double>::quiet_NaN()}).ok());
}

}  // namespace
}  // namespace baton::bench
