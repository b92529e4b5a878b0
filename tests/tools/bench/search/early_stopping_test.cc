#include "tools/bench/search/early_stopping.h"

#include <gtest/gtest.h>

namespace baton::bench {
namespace {

TEST(EarlyStopping, NeedsAsManyRequestsAsMlperf) {
  EXPECT_EQ(RequestsNeeded(0, 99), 459);
  EXPECT_EQ(RequestsNeeded(1, 99), 662);
  EXPECT_EQ(RequestsNeeded(2, 99), 838);
  EXPECT_EQ(RequestsNeeded(5, 99), 1307);
  EXPECT_EQ(RequestsNeeded(10, 99), 2010);
  EXPECT_EQ(RequestsNeeded(0, 95), 90);
  EXPECT_EQ(RequestsNeeded(5, 95), 259);
  EXPECT_EQ(RequestsNeeded(20, 95), 656);
}

TEST(EarlyStopping, PassesFromTheNeededRequestOnAndNotBefore) {
  EXPECT_EQ(JudgePercentile(459, 0, 99).verdict, Verdict::kPasses);
  const EarlyStop before = JudgePercentile(458, 0, 99);
  EXPECT_EQ(before.verdict, Verdict::kNeedsMore);
  EXPECT_EQ(before.more, 1);
  EXPECT_EQ(JudgePercentile(2010, 10, 99).verdict, Verdict::kPasses);
  EXPECT_EQ(JudgePercentile(2010, 11, 99).verdict, Verdict::kNeedsMore);
}

TEST(EarlyStopping, FailsOnlyWithTheSameConfidence) {
  // 1000 requests at P99 allow 10; P(X >= 19) is below 1 %, P(X >= 18) is above.
  EXPECT_EQ(JudgePercentile(1000, 18, 99).verdict, Verdict::kNeedsMore);
  EXPECT_EQ(JudgePercentile(1000, 19, 99).verdict, Verdict::kFails);
  EXPECT_EQ(JudgePercentile(10, 10, 99).verdict, Verdict::kFails);
}

TEST(EarlyStopping, SaysHowManyMoreAtTheRateSeen) {
  const EarlyStop half = JudgePercentile(1000, 5, 99);
  ASSERT_EQ(half.verdict, Verdict::kNeedsMore);
  // At half the allowed rate 10 of 2010 pass, so about a thousand more.
  EXPECT_NEAR(static_cast<double>(half.more), 1010, 40);
  EXPECT_EQ(JudgePercentile(1000, 10, 99).more, 0) << "at the allowed rate no number passes";
  EXPECT_EQ(JudgePercentile(0, 0, 99).more, 459);
}

TEST(EarlyStopping, HoldsForMillions) {
  EXPECT_EQ(JudgePercentile(10'000'000, 90'000, 99).verdict, Verdict::kPasses);
  EXPECT_EQ(JudgePercentile(10'000'000, 110'000, 99).verdict, Verdict::kFails);
}

}  // namespace
}  // namespace baton::bench
