#include "router/request/answer_roll.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

RequestFigures FiguresOf(int32_t output_tokens, FinishReason reason = FinishReason::kStopEos) {
  RequestFigures figures;
  figures.reason = reason;
  figures.prompt_tokens = 7;
  figures.output_tokens = output_tokens;
  figures.decoding = std::chrono::milliseconds(10 * (output_tokens - 1));
  figures.decoding_gaps = output_tokens - 1;
  figures.total = std::chrono::milliseconds(100 + output_tokens);
  figures.slack = std::chrono::seconds(60 - output_tokens);
  return figures;
}

TEST(AnswerRollTest, OthersAreOpenedOnceAndAllHaveToEnd) {
  AnswerRoll roll(3);
  EXPECT_FALSE(roll.all_over());
  EXPECT_TRUE(roll.OpenOthers());
  EXPECT_FALSE(roll.OpenOthers());
  roll.Over(2, FiguresOf(3));
  roll.Over(0, FiguresOf(5));
  EXPECT_FALSE(roll.all_over());
  roll.Over(1, FiguresOf(9));
  EXPECT_TRUE(roll.all_over());
}

TEST(AnswerRollTest, AFirstAnswerThatIsOverDoesNotEndTheRequestBeforeTheOthersWereOpened) {
  AnswerRoll roll(2);
  roll.Over(0, FiguresOf(1));
  EXPECT_FALSE(roll.all_over());
  EXPECT_TRUE(roll.OpenOthers());
}

TEST(AnswerRollTest, AnErrorBeforeTheOthersWereOpenedKeepsThemClosed) {
  AnswerRoll roll(4);
  roll.Over(0, FiguresOf(0, FinishReason::kError));
  EXPECT_TRUE(roll.Fail(absl::UnavailableError("gone"), FinishReason::kError));
  EXPECT_FALSE(roll.OpenOthers());
  EXPECT_TRUE(roll.all_over());
}

TEST(AnswerRollTest, TheFirstErrorIsTheRequestsAndWaitsForThoseUnderWay) {
  AnswerRoll roll(2);
  ASSERT_TRUE(roll.OpenOthers());
  roll.Over(1, FiguresOf(2, FinishReason::kDeadline));
  EXPECT_TRUE(roll.Fail(absl::DeadlineExceededError("late"), FinishReason::kDeadline));
  EXPECT_FALSE(roll.Fail(absl::UnavailableError("gone"), FinishReason::kError));
  EXPECT_FALSE(roll.all_over());
  roll.Over(0, FiguresOf(4, FinishReason::kDeadline));
  ASSERT_TRUE(roll.all_over());
  EXPECT_EQ(roll.failure()->status.message(), "late");
  EXPECT_EQ(roll.Total().reason, FinishReason::kDeadline);
  EXPECT_EQ(roll.Total().status.code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(AnswerRollTest, TheTotalHasThePromptOnceAndEachTokenOnce) {
  AnswerRoll roll(3);
  ASSERT_TRUE(roll.OpenOthers());
  roll.Over(1, FiguresOf(9, FinishReason::kLength));
  roll.Over(0, FiguresOf(5));
  roll.Over(2, FiguresOf(3));
  const RequestFigures total = roll.Total();
  EXPECT_EQ(total.reason, FinishReason::kStopEos) << "as the first answer";
  EXPECT_EQ(total.prompt_tokens, 7);
  EXPECT_EQ(total.output_tokens, 17);
  EXPECT_EQ(total.decoding_gaps, 14);
  EXPECT_EQ(total.decoding, std::chrono::milliseconds(140));
  EXPECT_EQ(total.total, std::chrono::milliseconds(109));
  EXPECT_EQ(total.slack, std::chrono::seconds(51));
}

}  // namespace
}  // namespace baton
