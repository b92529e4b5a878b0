#include "tools/bench/figures/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace baton::bench {
namespace {

TEST(Percentile, InterpolatesAsNumpyDoes) {
  const std::vector<double> sorted = {1, 2, 4, 8};
  EXPECT_DOUBLE_EQ(PercentileOfSorted(sorted, 0), 1);
  EXPECT_DOUBLE_EQ(PercentileOfSorted(sorted, 50), 3);       // numpy.percentile([1,2,4,8], 50)
  EXPECT_DOUBLE_EQ(PercentileOfSorted(sorted, 90), 6.8);     // .., 90
  EXPECT_NEAR(PercentileOfSorted(sorted, 99), 7.88, 1e-12);  // .., 99
  EXPECT_DOUBLE_EQ(PercentileOfSorted(sorted, 100), 8);
  EXPECT_DOUBLE_EQ(PercentileOfSorted({}, 50), 0);
}

TEST(Summarize, SaysEverythingOfUnsortedSamples) {
  const Summary summary = Summarize({8, 1, 4, 2}, 1);
  EXPECT_EQ(summary.count, 4);
  EXPECT_DOUBLE_EQ(summary.mean, 3.75);
  EXPECT_NEAR(summary.std, 2.680951323690902, 1e-12);  // numpy.std, which divides by n
  EXPECT_DOUBLE_EQ(summary.min, 1);
  EXPECT_DOUBLE_EQ(summary.p50, 3);
  EXPECT_DOUBLE_EQ(summary.max, 8);
}

TEST(Summarize, IsZeroWithoutSamplesAndHasNoIntervalOfOne) {
  EXPECT_EQ(Summarize({}, 1).count, 0);
  const Summary one = Summarize({5}, 1);
  EXPECT_DOUBLE_EQ(one.p99, 5);
  EXPECT_DOUBLE_EQ(one.mean_ci.high, 0);
}

TEST(Bootstrap, IsTheSameFromTheSameSeed) {
  const std::vector<double> samples = {1, 5, 2, 9, 3, 7};
  EXPECT_DOUBLE_EQ(Summarize(samples, 7).p90_ci.low, Summarize(samples, 7).p90_ci.low);
  EXPECT_DOUBLE_EQ(Summarize(samples, 7).mean_ci.high, Summarize(samples, 7).mean_ci.high);
}

// The drawn ranks must be those of real resamples: compared with resampling value by value.
TEST(Bootstrap, DrawsRanksAsResamplingWould) {
  constexpr uint64_t kSeed = 11;
  SCOPED_TRACE(kSeed);
  std::mt19937_64 random(kSeed);
  std::exponential_distribution<double> law(1);
  std::vector<double> samples(200);
  for (double& value : samples) value = law(random);
  std::vector<double> percentiles;
  std::uniform_int_distribution<size_t> pick(0, samples.size() - 1);
  for (int i = 0; i < 4000; ++i) {
    std::vector<double> resample(samples.size());
    for (double& value : resample) value = samples[pick(random)];
    std::sort(resample.begin(), resample.end());
    percentiles.push_back(PercentileOfSorted(resample, 90));
  }
  std::sort(percentiles.begin(), percentiles.end());
  const Interval interval = Summarize(samples, kSeed).p90_ci;
  EXPECT_NEAR(interval.low, PercentileOfSorted(percentiles, 2.5), 0.1);
  EXPECT_NEAR(interval.high, PercentileOfSorted(percentiles, 97.5), 0.25);
}

TEST(Bootstrap, CoversTheTruthAboutAsOftenAsItSays) {
  int mean_covered = 0;
  int median_covered = 0;
  constexpr int kTrials = 300;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::mt19937_64 random(1000 + trial);
    std::exponential_distribution<double> law(1);
    std::vector<double> samples(trial % 2 == 0 ? 100 : 1500);
    for (double& value : samples) value = law(random);
    const Summary summary = Summarize(samples, 5);
    mean_covered += summary.mean_ci.low <= 1 && 1 <= summary.mean_ci.high ? 1 : 0;
    const double median = std::log(2.0);
    median_covered += summary.p50_ci.low <= median && median <= summary.p50_ci.high ? 1 : 0;
  }
  EXPECT_GE(mean_covered, 0.90 * kTrials);
  EXPECT_LE(mean_covered, 0.99 * kTrials);
  EXPECT_GE(median_covered, 0.90 * kTrials);
  EXPECT_LE(median_covered, 0.99 * kTrials);
}

TEST(Distributions, AgreeWithTables) {
  EXPECT_NEAR(IncompleteBeta(2, 3, 0.5), 0.6875, 1e-12);
  EXPECT_NEAR(IncompleteBeta(0.5, 0.5, 0.25), 1.0 / 3, 1e-12);  // arcsine law
  EXPECT_DOUBLE_EQ(IncompleteBeta(2, 3, 0), 0);
  EXPECT_DOUBLE_EQ(IncompleteBeta(2, 3, 1), 1);
  EXPECT_NEAR(StudentTCdf(2.353363, 3), 0.95, 1e-6);
  EXPECT_NEAR(StudentTCdf(-2.228139, 10), 0.025, 1e-6);
}

TEST(FitLine, FindsSlopeAndHowSureItIs) {
  const std::vector<double> x = {1, 2, 3, 4, 5};
  const std::vector<double> y = {2.1, 3.9, 6.2, 7.8, 10.1};
  const Regression line = FitLine(x, y);
  EXPECT_NEAR(line.slope, 1.99, 1e-9);
  EXPECT_NEAR(line.t, 33.25, 0.5);
  EXPECT_LT(line.p_not_positive, 1e-4);
  const std::vector<double> falling = {5, 4, 3, 2, 1.1};
  EXPECT_GT(FitLine(x, falling).p_not_positive, 0.999);
}

TEST(FitLine, ClaimsNothingOfTooLittle) {
  EXPECT_DOUBLE_EQ(FitLine(std::vector<double>{1, 2}, std::vector<double>{1, 9}).p_not_positive, 1);
  EXPECT_DOUBLE_EQ(
      FitLine(std::vector<double>{1, 1, 1}, std::vector<double>{1, 2, 3}).p_not_positive, 1);
}

TEST(Carries, ARareValueTakesManySamples) {
  for (const auto& [percentile, least] :
       {std::pair(50.0, 6), {90.0, 36}, {95.0, 72}, {99.0, 368}, {99.9, 3688}}) {
    EXPECT_EQ(SamplesNeededFor(percentile), least);
    EXPECT_TRUE(Carries(least, percentile)) << percentile;
    EXPECT_FALSE(Carries(least - 1, percentile)) << percentile;
  }
}

}  // namespace
}  // namespace baton::bench
