#include "common/worker/stop_set_watch.h"

#include "gtest/gtest.h"

namespace baton {
namespace {

constexpr TokenId kTurnEnd = 7;

// Has `watch` take answers that passed `special` until it tells one or `answers` are over.
std::optional<StopSetWatch::Suspect> TakeAnswers(StopSetWatch* watch, int answers,
                                                 FinishReason reason,
                                                 std::optional<TokenId> special = kTurnEnd) {
  for (int i = 0; i < answers; ++i) {
    if (const auto told = watch->Take(reason, special)) return told;
  }
  return std::nullopt;
}

TEST(StopSetWatch, TellsOnceOfATokenThatAnswersPassAndDoNotEnd) {
  StopSetWatch watch;
  EXPECT_FALSE(TakeAnswers(&watch, StopSetWatch::kAnswers - 1, FinishReason::kLength));
  const auto told = watch.Take(FinishReason::kRunaway, kTurnEnd);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->id, kTurnEnd);
  EXPECT_EQ(told->answers, StopSetWatch::kAnswers);
  EXPECT_EQ(told->ended_by_eos, 0);
  EXPECT_FALSE(TakeAnswers(&watch, 100, FinishReason::kLength));
  EXPECT_FALSE(TakeAnswers(&watch, 100, FinishReason::kLength, kTurnEnd + 1));
}

TEST(StopSetWatch, SaysNothingOfATokenThatIsFollowedByEos) {
  StopSetWatch watch;
  EXPECT_FALSE(TakeAnswers(&watch, 50, FinishReason::kStopEos));
  EXPECT_FALSE(TakeAnswers(&watch, 50, FinishReason::kLength)) << "half of them ended by EOS";
  EXPECT_EQ(watch.Take(FinishReason::kLength, kTurnEnd)->ended_by_eos, 50);
}

TEST(StopSetWatch, AnswersThatPassNothingAndThoseThatWereCancelledDoNotCount) {
  StopSetWatch watch;
  EXPECT_FALSE(TakeAnswers(&watch, 100, FinishReason::kLength, std::nullopt));
  for (const FinishReason reason : {FinishReason::kAborted, FinishReason::kDeadline,
                                    FinishReason::kError, FinishReason::kNone}) {
    EXPECT_FALSE(TakeAnswers(&watch, 100, reason));
  }
}

TEST(StopSetWatch, EachTokenIsCountedAlone) {
  StopSetWatch watch;
  for (TokenId id = 0; id < 20; ++id) {
    EXPECT_FALSE(TakeAnswers(&watch, StopSetWatch::kAnswers - 1, FinishReason::kLength, id));
  }
}

}  // namespace
}  // namespace baton
