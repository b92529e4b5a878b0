#include "common/sched/policies/past_future.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/common/sched/policies/policy_views.h"

namespace baton {
namespace {

bool Admits(const SequenceView& candidate, const std::vector<SequenceView>& beside,
            int64_t pool_tokens, int64_t free_tokens, double quantile = 0.9) {
  return kPastFuturePolicy.admits(
      candidate, {.beside = beside, .pool_tokens = pool_tokens, .free_tokens = free_tokens},
      MomentAt(0, {.quantile = quantile}));
}

TEST(PastFutureTest, ThePeakIsTheMostThatIsHeldAtOneTime) {
  // 48 tokens on: (100 + 48) + (200 + 48) + (300 + 48) = 744, and then the first leaves;
  // 64 on: 264 + 364 = 628; 384 on: 300 + 384 = 684.
  const std::vector<SequenceView> beside = {ViewOf({.prompt = 200, .left = 80}),
                                            ViewOf({.prompt = 300, .left = 400})};
  const SequenceView candidate = ViewOf({.prompt = 100, .left = 50});
  EXPECT_NEAR(ForeseenPeak(candidate, {.beside = beside}, 0.9), 744, 1e-9);
  // One that goes on for long when all others have left makes the peak.
  const std::vector<SequenceView> long_one = {ViewOf({.prompt = 10, .left = 3000})};
  EXPECT_NEAR(ForeseenPeak(candidate, {.beside = long_one}, 0.9), 10 + 2560, 1e-9);
}

TEST(PastFutureTest, TheQuantileIsThatOfTheSum) {
  SequenceView view = ViewOf({.prompt = 10, .left = 300});
  view.end->p50 = 250;
  view.end->p90 = 600;
  view.end->p_within = {0, 0, 0, 0.1F, 0.52F};
  const std::vector<SequenceView> beside(99, view);
  const double half = ForeseenPeak(view, {.beside = beside}, 0.5),
               careful = ForeseenPeak(view, {.beside = beside}, 0.9);
  EXPECT_GT(careful, half);
  EXPECT_LT(careful, 1.2 * half) << "what each of them may do evens out";
}

TEST(PastFutureTest, LetsInWhatFitsAtThePeak) {
  const std::vector<SequenceView> beside = {ViewOf({.prompt = 200, .left = 80}),
                                            ViewOf({.prompt = 300, .left = 400})};
  const SequenceView candidate = ViewOf({.prompt = 100, .left = 50});
  EXPECT_TRUE(Admits(candidate, beside, 746, 246));   // half a token of each block is a gap
  EXPECT_FALSE(Admits(candidate, beside, 740, 240));  // 240 tokens are free and 100 asked for
}

TEST(PastFutureTest, AHigherQuantileIsMoreCareful) {
  SequenceView running = ViewOf({.prompt = 100, .left = 100});
  running.end->p50 = 100;
  running.end->p90 = 400;
  const SequenceView candidate = ViewOf({.prompt = 100, .left = 10});
  EXPECT_TRUE(Admits(candidate, {running}, 350, 250, 0.5));
  EXPECT_FALSE(Admits(candidate, {running}, 350, 250, 0.9));
}

TEST(PastFutureTest, LetsEverybodyInWhereNothingIsKnown) {
  const std::vector<SequenceView> beside(3, ViewOf({.prompt = 300, .generated = 500}));
  EXPECT_TRUE(Admits(ViewOf({}), beside, 1000, 100));
}

TEST(PastFutureTest, AnUnknownOneIsNotLong) {
  const std::vector<SequenceView> beside = {ViewOf({.prompt = 100}),
                                            ViewOf({.prompt = 100, .left = 50})};
  EXPECT_TRUE(Admits(ViewOf({.prompt = 100}), beside, 360, 160));
}

TEST(PastFutureTest, WhatIsSharedCountsOnce) {
  // Both hold the same 400 tokens of a prompt, so 500 are in use, not 900.
  const std::vector<SequenceView> beside = {ViewOf({.prompt = 450, .left = 50}),
                                            ViewOf({.prompt = 450, .left = 50})};
  const SequenceView candidate = ViewOf({.prompt = 100, .left = 50});
  EXPECT_TRUE(Admits(candidate, beside, 800, 300));
  EXPECT_FALSE(Admits(candidate, beside, 730, 230));
}

TEST(PastFutureTest, ServesByAge) {
  const SequenceView older = ViewOf({.id = 2, .came_ms = 1, .left = 900}),
                     younger = ViewOf({.id = 1, .came_ms = 2, .left = 1});
  EXPECT_TRUE(kPastFuturePolicy.starts_before(older, younger, MomentAt(10)));
  EXPECT_FALSE(kPastFuturePolicy.displaces(younger, older, MomentAt(10)));
}

}  // namespace
}  // namespace baton
