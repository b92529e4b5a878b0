#include "tools/sim/span_means.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <random>

namespace baton::simulator {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(SpanMeansTest, IsEmptyBeforeTimePasses) {
  SpanMeans spans;
  EXPECT_THAT(spans.Means(), IsEmpty());
  spans.Add({}, 5);
  EXPECT_THAT(spans.Means(), IsEmpty());
}

TEST(SpanMeansTest, WeighsValuesByTheirTimeAndTheLastSpanByWhatThereWasOfIt) {
  SpanMeans spans;
  spans.Add(microseconds(250), 1);
  spans.Add(microseconds(1750), 3);
  spans.Add(microseconds(500), 8);
  EXPECT_EQ(spans.every(), milliseconds(1));
  EXPECT_THAT(spans.Means(), ElementsAre(DoubleNear(2.5, 1e-9), DoubleNear(3, 1e-9), 8));
}

TEST(SpanMeansTest, LongTimesHaveWiderSpansAndTheSameMean) {
  std::mt19937 random(7);
  SpanMeans spans;
  base::Duration now{};
  double sum = 0;
  for (int i = 0; i < 5000; ++i) {
    const base::Duration step = microseconds(random() % 100'000);
    const double value = static_cast<double>(random() % 10);
    now += step;
    sum += value * base::Seconds(step);
    spans.Add(step, value);
  }
  const std::vector<double> means = spans.Means();
  ASSERT_GT(means.size(), 64U);
  ASSERT_LE(means.size(), 128U);
  double found = 0;
  for (size_t i = 0; i + 1 < means.size(); ++i) found += means[i] * base::Seconds(spans.every());
  found +=
      means.back() * base::Seconds(now - spans.every() * static_cast<int64_t>(means.size() - 1));
  EXPECT_NEAR(found, sum, 1e-6 * sum);
}

TEST(SpanMeansTest, OneLongStepIsAsManyShortOnes) {
  SpanMeans once, often;
  once.Add(std::chrono::seconds(10), 2);
  for (int i = 0; i < 10'000; ++i) often.Add(milliseconds(1), 2);
  EXPECT_EQ(once.every(), often.every());
  EXPECT_EQ(once.Means().size(), often.Means().size());
  for (const double mean : once.Means()) EXPECT_NEAR(mean, 2, 1e-9);
  for (const double mean : often.Means()) EXPECT_NEAR(mean, 2, 1e-9);
}

}  // namespace
}  // namespace baton::simulator
