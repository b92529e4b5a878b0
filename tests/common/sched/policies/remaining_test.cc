#include "common/sched/policies/remaining.h"

#include <gtest/gtest.h>

#include "common/sched/policies/named.h"
#include "tests/common/sched/policies/policy_views.h"

namespace baton {
namespace {

constexpr PolicySettings kSharp = {.gamma = 0.0001};

bool StartsFirst(const SequenceView& a, const SequenceView& b, int64_t now_ms) {
  return kRemainingPolicy.starts_before(a, b, MomentAt(now_ms, kSharp));
}

TEST(RemainingTest, TheShorterOneStartsFirst) {
  const SequenceView older = ViewOf({.id = 1, .came_ms = 0, .left = 500, .class_tokens = 500}),
                     shorter = ViewOf({.id = 2, .came_ms = 5, .left = 20, .class_tokens = 20});
  EXPECT_TRUE(StartsFirst(shorter, older, 10));
  EXPECT_FALSE(StartsFirst(older, shorter, 10));
}

TEST(RemainingTest, WhoWaitedForLongerThanItIsWorthGoesFirst) {
  // A token takes 10 ms, so 500 of them are worth ten times 5 s.
  const SequenceView waiting = ViewOf({.id = 1, .came_ms = 0, .left = 500, .class_tokens = 500}),
                     shorter = ViewOf({.id = 2, .came_ms = 49'990, .left = 20, .class_tokens = 20}),
                     longer = ViewOf({.id = 3, .came_ms = 0, .left = 600, .class_tokens = 600});
  EXPECT_FALSE(IsPromoted(waiting, MomentAt(50'000)));
  EXPECT_TRUE(IsPromoted(waiting, MomentAt(50'001)));
  EXPECT_TRUE(StartsFirst(shorter, waiting, 50'000));
  EXPECT_TRUE(StartsFirst(waiting, shorter, 50'001));
  EXPECT_TRUE(StartsFirst(waiting, longer, 60'001)) << "of the promoted, by age";
}

TEST(RemainingTest, WhereNothingIsKnownAgeDecides) {
  const SequenceView older = ViewOf({.id = 1, .came_ms = 0}),
                     younger = ViewOf({.id = 2, .came_ms = 1});
  EXPECT_TRUE(StartsFirst(older, younger, 1'000'000));
  EXPECT_FALSE(StartsFirst(younger, older, 1'000'000));
  EXPECT_FALSE(kRemainingPolicy.displaces(younger, older, MomentAt(10)));
}

class DisplaceTest : public testing::Test {
 protected:
  bool Displaces() const {
    return kRemainingPolicy.displaces(ViewOf(candidate_), ViewOf(victim_), MomentAt(2000));
  }
  ViewParts candidate_ = {.id = 2, .came_ms = 1999, .left = 50, .class_tokens = 50};
  ViewParts victim_ = {.id = 1, .generated = 100, .left = 300, .class_tokens = 200};
};

TEST_F(DisplaceTest, AShortOneTakesThePlaceOfALongOne) { EXPECT_TRUE(Displaces()); }

TEST_F(DisplaceTest, ALittleShorterIsNotEnough) {
  candidate_.left = 61;
  EXPECT_FALSE(Displaces());
}

TEST_F(DisplaceTest, OnlyWhoIsBeforeTheMiddleGivesWay) {
  victim_.generated = 299;
  EXPECT_TRUE(Displaces());
  victim_.generated = 300;
  EXPECT_FALSE(Displaces());
}

TEST_F(DisplaceTest, NobodyGivesWayTwiceNorToOneThatDid) {
  victim_.gave_way = true;
  EXPECT_FALSE(Displaces());
  victim_.gave_way = false;
  candidate_.gave_way = true;
  EXPECT_FALSE(Displaces());
}

TEST_F(DisplaceTest, WhoIsAboutToEndStays) {
  victim_.soon = 0.5F;
  EXPECT_FALSE(Displaces());
}

TEST_F(DisplaceTest, WhoIsPromotedStays) {
  victim_.class_tokens = 10;  // worth ten times 100 ms
  EXPECT_FALSE(Displaces());
}

TEST_F(DisplaceTest, TooFewTokensAreNotTaken) {
  candidate_.prompt = 201;
  EXPECT_FALSE(Displaces());
}

TEST_F(DisplaceTest, TheUnknownNeitherDisplaceNorYield) {
  victim_.left.reset();
  EXPECT_FALSE(Displaces());
  victim_.left = 300;
  candidate_.left.reset();
  EXPECT_FALSE(Displaces());
}

TEST(PolicyNamesTest, EveryNameIsOfAPolicy) {
  for (const std::string& name : PolicyNames()) EXPECT_TRUE(PolicyNamed(name)) << name;
  EXPECT_FALSE(PolicyNamed("lifo"));
  EXPECT_FALSE(PolicyNamed(""));
}

}  // namespace
}  // namespace baton
