#include "common/sched/policies/boost.h"

#include <gtest/gtest.h>

#include "tests/common/sched/policies/policy_views.h"

namespace baton {
namespace {

bool ComesFirst(const SequenceView& a, const SequenceView& b, double gamma) {
  const PolicyMoment moment = MomentAt(100'000, {.gamma = gamma});
  const bool before = kBoostPolicy.starts_before(a, b, moment);
  EXPECT_NE(before, kBoostPolicy.starts_before(b, a, moment));
  EXPECT_NE(before, kBoostPolicy.yields_before(a, b, moment));
  return before;
}

TEST(BoostTest, ShorterJobsAreBoostedMore) {
  EXPECT_NEAR(BoostTokens(100, 0.01), 45.87, 0.01);  // -ln(1 - 1/e) / 0.01
  EXPECT_GT(BoostTokens(10, 0.01), BoostTokens(100, 0.01));
  EXPECT_GT(BoostTokens(1000, 0.01), 0);
  EXPECT_EQ(BoostTokens(0, 0.01), BoostTokens(1, 0.01)) << "an endless boost would be no order";
}

TEST(BoostTest, GammaStandsBetweenShortestFirstAndAge) {
  // A token takes 10 ms; the short one came two seconds later.
  const SequenceView long_one = ViewOf({.id = 1, .came_ms = 0, .class_tokens = 1000}),
                     short_one = ViewOf({.id = 2, .came_ms = 2000, .class_tokens = 10});
  EXPECT_TRUE(ComesFirst(short_one, long_one, 0.001));
  EXPECT_TRUE(ComesFirst(long_one, short_one, 0.1));
}

TEST(BoostTest, IsBlindToWhatTheModelSaysOfItsEnd) {
  const SequenceView older = ViewOf({.id = 1, .came_ms = 0, .left = 5000, .class_tokens = 100}),
                     younger = ViewOf({.id = 2, .came_ms = 1, .left = 1, .class_tokens = 100});
  EXPECT_TRUE(ComesFirst(older, younger, 0.001));
}

TEST(BoostTest, WhatWasGeneratedCountsWhereItIsMore) {
  const SequenceView grown = ViewOf({.id = 1, .came_ms = 0, .generated = 900, .class_tokens = 50}),
                     fresh = ViewOf({.id = 2, .came_ms = 1, .class_tokens = 50});
  EXPECT_TRUE(ComesFirst(fresh, grown, 0.001));
}

TEST(BoostTest, WhereNothingIsKnownAgeDecides) {
  const SequenceView older = ViewOf({.id = 1, .came_ms = 0}),
                     younger = ViewOf({.id = 2, .came_ms = 1}),
                     twin = ViewOf({.id = 3, .came_ms = 1});
  EXPECT_TRUE(ComesFirst(older, younger, 0.0001));
  EXPECT_TRUE(ComesFirst(younger, twin, 0.0001));
  // An unknown one stands between a short and a long one that came when it did.
  EXPECT_TRUE(ComesFirst(ViewOf({.id = 4, .class_tokens = 10}), older, 0.01));
  EXPECT_TRUE(ComesFirst(older, ViewOf({.id = 0, .class_tokens = 1000}), 0.01));
}

}  // namespace
}  // namespace baton
