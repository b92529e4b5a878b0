#include "tools/eos/row_check.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tools/eos/eos_rows.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

class RowCheckTest : public ::testing::Test {
 protected:
  static EosLogRow Row(const RowParts& parts) {
    EosLogRow row;
    std::string line = EosLine(parts);
    line.pop_back();
    const absl::Status read = ReadEosRow(line, &row);
    EXPECT_TRUE(read.ok()) << read;
    return row;
  }
  std::string Take(const RowParts& parts) { return check_.Take(Row(parts)); }

  RowCheck check_;
};

TEST_F(RowCheckTest, RequestsThatEndAreGood) {
  for (const char* id : {"a", "b"}) {
    EXPECT_EQ(Take({.id = id, .step = 1}), "");
    EXPECT_EQ(Take({.id = id, .step = 2, .attempt = 3}), "");
  }
  EXPECT_EQ(Take({.id = "a", .step = 3, .reason = FinishReason::kStopEos, .attempt = 3}), "");
  EXPECT_EQ(check_.requests(), 2);
  EXPECT_EQ(check_.open(), 1);
}

TEST_F(RowCheckTest, AnswersToOneRequestAreTakenForThemselves) {
  EXPECT_EQ(Take({.step = 1}), "");
  EXPECT_EQ(Take({.step = 1, .index = 1}), "");
  EXPECT_EQ(Take({.step = 2, .reason = FinishReason::kLength}), "");
  EXPECT_EQ(Take({.step = 2, .index = 1}), "");
  EXPECT_THAT(Take({.step = 2, .index = 1}), HasSubstr("step: found 2, expected 3"));
  EXPECT_EQ(check_.open(), 1);
}

TEST_F(RowCheckTest, AnIdMayBeUsedAgain) {
  EXPECT_EQ(Take({.step = 1, .reason = FinishReason::kLength}), "");
  EXPECT_EQ(Take({.step = 1}), "");
  EXPECT_EQ(Take({.step = 2}), "");
  // The router was killed here, and another request came with the same id.
  EXPECT_EQ(Take({.step = 1, .prompt_length = 7, .timestamp = 5000}), "");
  EXPECT_EQ(check_.requests(), 3);
  EXPECT_EQ(check_.open(), 2);
}

TEST_F(RowCheckTest, StepsComeOnceAndInOrder) {
  EXPECT_THAT(Take({.step = 2}), HasSubstr("step: found 2, expected 1, for the request has no"));
  EXPECT_EQ(Take({.step = 3}), "");
  EXPECT_EQ(Take({.step = 5}), "step: found 5, expected 4 after 3");
  EXPECT_EQ(Take({.step = 6}), "");
  EXPECT_EQ(Take({.step = 6}), "step: found 6, expected 7 after 6");
  EXPECT_EQ(Take({.step = 7, .reason = FinishReason::kLength}), "");
  EXPECT_THAT(Take({.step = 8}), HasSubstr("or has ended"));
}

TEST_F(RowCheckTest, TheSameFirstRowTwiceIsNoOtherRequest) {
  EXPECT_EQ(Take({.step = 1}), "");
  EXPECT_EQ(Take({.step = 1}), "step: found 1, expected 2 after 1");
  EXPECT_EQ(check_.requests(), 1);
}

TEST_F(RowCheckTest, LengthsFollowFromSteps) {
  EosLogRow row = Row({});
  row.output_length = 2;
  EXPECT_EQ(check_.Take(row), "output_length: found 2, expected step = 1");
  row = Row({.id = "r2"});
  row.total_length = 22;
  EXPECT_EQ(check_.Take(row),
            "total_length: found 22, expected prompt_length + output_length = 21");
}

TEST_F(RowCheckTest, TheProbabilityIsThatOfTheLogarithm) {
  EosLogRow row = Row({.eos_prob = 0.5});
  row.eos_prob = *row.eos_prob * (1 + 5e-7);
  EXPECT_EQ(check_.Take(row), "");
  row = Row({.step = 2, .eos_prob = 0.5});
  row.eos_prob = *row.eos_prob * (1 + 2e-6);
  EXPECT_THAT(check_.Take(row),
              HasSubstr("eos_prob: found 0.500000999, expected exp(eos_logprob) = 0.4"));
  row = Row({.step = 3, .eos_prob = 1e-30});
  row.eos_prob = 2e-30;
  EXPECT_THAT(check_.Take(row), HasSubstr("eos_prob: found 2e-30"));
  row = Row({.step = 4});
  row.eos_prob.reset();
  EXPECT_THAT(check_.Take(row), HasSubstr("eos_prob: found null"));
  row = Row({.step = 5});
  row.eos_logprob.reset();
  EXPECT_THAT(check_.Take(row), HasSubstr("eos_logprob: found null"));
  // The logarithm of zero is not finite, and both are null where there is no EOS.
  row = Row({.step = 6});
  row.eos_logprob.reset();
  row.eos_prob = 0;
  EXPECT_EQ(check_.Take(row), "");
  row = Row({.step = 7});
  row.eos_logprob.reset();
  row.eos_prob.reset();
  EXPECT_EQ(check_.Take(row), "");
}

TEST_F(RowCheckTest, OnlyTheLastRowCarriesTheEnd) {
  EosLogRow row = Row({});
  row.is_finished = true;
  EXPECT_THAT(check_.Take(row), HasSubstr("finish_reason: found null, expected a reason"));
  row = Row({.reason = FinishReason::kLength});
  row.is_finished = false;
  EXPECT_THAT(check_.Take(row), HasSubstr("finish_reason: found length, expected null"));
}

TEST_F(RowCheckTest, WhatIgnoresEosDoesNotEndByIt) {
  const auto policy = EosPolicy::kIgnoreMask;
  EXPECT_EQ(Take({.reason = FinishReason::kStopEos, .policy = policy}),
            "finish_reason: found stop_eos, expected another one under eos_policy mask");
  EXPECT_EQ(Take({.id = "loop", .reason = FinishReason::kRunaway, .policy = policy}),
            "finish_reason: found runaway, expected another one under eos_policy mask");
  EXPECT_EQ(Take({.id = "honest", .reason = FinishReason::kRunaway}), "");
}

TEST_F(RowCheckTest, TheNaturalEndIsAStepAndStays) {
  const auto policy = EosPolicy::kIgnoreContinue;
  EXPECT_EQ(Take({.step = 1, .policy = policy}), "");
  EXPECT_EQ(Take({.step = 2, .policy = policy, .natural_end_step = 2}), "");
  EXPECT_EQ(Take({.step = 3, .policy = policy, .natural_end_step = 2}), "");
  EXPECT_EQ(Take({.step = 4, .policy = policy}),
            "natural_end_step: found null, expected 2 as in the row before");
  EXPECT_EQ(Take({.id = "late", .step = 1, .policy = policy}), "");
  EXPECT_THAT(Take({.id = "late", .step = 2, .policy = policy, .natural_end_step = 1}),
              HasSubstr("natural_end_step: found 1, expected null, or this step, 2"));
  EXPECT_THAT(Take({.id = "future", .policy = policy, .natural_end_step = 4}),
              HasSubstr("natural_end_step: found 4, expected a step up to this one, 1"));
  EXPECT_THAT(Take({.id = "honor", .natural_end_step = 1}),
              HasSubstr("expected null under eos_policy honor before EOS"));
  EXPECT_EQ(Take({.id = "eos", .reason = FinishReason::kStopEos, .natural_end_step = 1}), "");
}

TEST_F(RowCheckTest, WhatBelongsToTheRequestStaysAndAttemptsDoNotFall) {
  EXPECT_EQ(Take({.step = 1, .attempt = 2}), "");
  EXPECT_THAT(Take({.step = 2, .attempt = 1}), HasSubstr("attempt: found 1, expected 2"));
  EXPECT_THAT(Take({.step = 3, .prompt_length = 21}),
              HasSubstr("prompt_length: found 21, expected 20"));
  EXPECT_THAT(Take({.step = 4, .policy = EosPolicy::kIgnoreMask, .prompt_length = 21}),
              HasSubstr("eos_policy: found mask, expected honor"));
  EosLogRow row = Row({.step = 5, .policy = EosPolicy::kIgnoreMask, .prompt_length = 21});
  row.eos_token_id.reset();
  EXPECT_EQ(check_.Take(row), "eos_token_id: found null, expected 2 as in the row before");
}

}  // namespace
}  // namespace baton
