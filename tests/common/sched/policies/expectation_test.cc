#include "common/sched/policies/expectation.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/common/sched/policies/policy_views.h"

namespace baton {
namespace {

TEST(SurvivalTest, RunsThroughWhatTheEstimateSays) {
  SequenceView view = ViewOf({.left = 50});
  view.end->p50 = 40;
  view.end->p90 = 120;
  view.end->p_within = {0.01F, 0.05F, 0.2F, 0.7F, 0.98F};
  const Survival survival(view);
  EXPECT_EQ(survival.At(0), 1);
  EXPECT_NEAR(survival.At(4), 0.95, 1e-6);
  EXPECT_NEAR(survival.At(10), 0.875, 1e-6) << "half-way from 4 to 16";
  EXPECT_NEAR(survival.At(40), 0.5, 1e-6);
  EXPECT_NEAR(survival.At(120), 0.1, 1e-6);
  EXPECT_NEAR(survival.At(256), 0.02, 1e-6);
  // p50 and p90 are 80 tokens apart, in which a chance falls to its fifth.
  EXPECT_NEAR(survival.At(256 + 80), 0.02 / 5, 1e-6);
}

TEST(SurvivalTest, OneThatIsSureEndsAtOnce) {
  const Survival survival(ViewOf({.left = 80}));
  EXPECT_EQ(survival.At(79), 1);
  EXPECT_EQ(survival.At(80), 0);
}

TEST(SurvivalTest, EqualQuantilesAreNotTakenForCertainty) {
  SequenceView view = ViewOf({.left = 6});
  view.end->p50 = view.end->p90 = 3;
  view.end->p_within = {0.3F, 0.95F, 0.95F, 0.95F, 0.98F};
  const Survival survival(view);
  EXPECT_NEAR(survival.At(1), 0.7, 1e-6);
  EXPECT_NEAR(survival.At(4), 0.05, 1e-6);
  EXPECT_NEAR(survival.At(100), 0.05 - 0.03 * 36 / 192, 1e-6) << "some go on";
  EXPECT_EQ(survival.At(300), 0);
}

TEST(SurvivalTest, NobodyIsLeftBehindTheLimit) {
  SequenceView view = ViewOf({.limit = 30, .left = 1000});
  EXPECT_EQ(Survival(view).At(29), 1);
  EXPECT_EQ(Survival(view).At(30), 0);
  EXPECT_EQ(ExpectedRemaining(view), 30);
  view.end->p90 = 3000;
  EXPECT_EQ(Survival(view).At(30), 0);
}

TEST(SurvivalTest, EstimatesThatContradictThemselvesStillNeverRise) {
  SequenceView view = ViewOf({.left = 10});
  view.end->p50 = 80;
  view.end->p90 = 5;
  view.end->p_within = {0.9F, 0.1F, 2, -1, 0.5F};
  const Survival sure(view);
  view.end->p90 = 90;
  const Survival other(view);
  for (double tokens = 1; tokens < 500; ++tokens) {
    for (const Survival* survival : {&sure, &other}) {
      EXPECT_LE(survival->At(tokens), survival->At(tokens - 1));
      EXPECT_GE(survival->At(tokens), 0);
    }
  }
}

TEST(ExpectationTest, NothingKnownIsNothingExpected) {
  EXPECT_EQ(ExpectedRemaining(ViewOf({})), std::nullopt);
  EXPECT_EQ(Survival(ViewOf({})).At(1e6), 1) << "it keeps what it has";
  EXPECT_FALSE(IsAboutToEnd(ViewOf({})));
}

TEST(ExpectationTest, WhoIsAboutToEndYieldsLast) {
  const SequenceView ending = ViewOf({.id = 2, .prompt = 5000, .left = 500, .soon = 0.6F});
  const SequenceView at_its_limit = ViewOf({.id = 3, .prompt = 5000, .limit = 16});
  EXPECT_TRUE(IsAboutToEnd(ending));
  EXPECT_TRUE(IsAboutToEnd(at_its_limit));
  for (const SequenceView& other : {ViewOf({.id = 1, .left = 2}), ViewOf({.id = 1})}) {
    for (const SequenceView& safe : {ending, at_its_limit}) {
      EXPECT_TRUE(YieldsByWork(other, safe));
      EXPECT_FALSE(YieldsByWork(safe, other));
    }
  }
}

TEST(ExpectationTest, TheMostTokensForTheLongestTimeYieldFirst) {
  const std::vector<SequenceView> first_to_last = {
      ViewOf({.id = 1, .prompt = 100, .left = 1000}),  // 100 000
      ViewOf({.id = 2, .prompt = 900, .left = 100}),   // 90 000
      ViewOf({.id = 3, .prompt = 50, .left = 1000}),   // 50 000
      ViewOf({.id = 5, .came_ms = 5}),                 // unknown: the younger
      ViewOf({.id = 6, .came_ms = 2}),
  };
  for (size_t i = 0; i < first_to_last.size(); ++i) {
    for (size_t j = 0; j < first_to_last.size(); ++j) {
      EXPECT_EQ(YieldsByWork(first_to_last[i], first_to_last[j]), i < j) << i << " and " << j;
    }
  }
}

}  // namespace
}  // namespace baton
