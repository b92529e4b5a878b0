#include "common/trace/otlp_client.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using Kind = OtlpReply::Kind;
using std::chrono::seconds;

TEST(JudgeAnswer, WhatIsTakenMayBeRejectedInPart) {
  EXPECT_EQ(JudgeAnswer(200, "", "{}").kind, Kind::kTaken);
  EXPECT_EQ(JudgeAnswer(200, "", "").why, "");
  EXPECT_EQ(JudgeAnswer(202, "", "no json").rejected, 0);
  const OtlpReply partial =
      JudgeAnswer(200, "", R"({"partialSuccess":{"rejectedSpans":"3","errorMessage":"too old"}})");
  EXPECT_EQ(partial.kind, Kind::kTaken);
  EXPECT_EQ(partial.rejected, 3);
  EXPECT_THAT(partial.why, ::testing::HasSubstr("too old"));
  EXPECT_EQ(JudgeAnswer(200, "", R"({"partialSuccess":{"rejectedSpans":2}})").rejected, 2);
  EXPECT_EQ(JudgeAnswer(200, "", R"({"partialSuccess":{"rejectedSpans":-2}})").rejected, 0);
  EXPECT_EQ(JudgeAnswer(200, "", R"({"partialSuccess":{"errorMessage":5}})").rejected, 0);
}

TEST(JudgeAnswer, OnlyWhatIsWorthAnotherTryIsTriedAgain) {
  for (const int status : {429, 502, 503, 504}) {
    EXPECT_EQ(JudgeAnswer(status, "", "").kind, Kind::kBusy) << status;
  }
  for (const int status : {301, 400, 401, 404, 413, 415, 500, 501}) {
    EXPECT_EQ(JudgeAnswer(status, "", "").kind, Kind::kRefused) << status;
  }
}

TEST(JudgeAnswer, RetryAfterIsInSecondsAndBounded) {
  EXPECT_EQ(JudgeAnswer(429, "7", "").retry_after, seconds(7));
  EXPECT_EQ(JudgeAnswer(503, "0", "").retry_after, seconds(0));
  EXPECT_EQ(JudgeAnswer(503, "86400", "").retry_after, seconds(300));
  EXPECT_FALSE(JudgeAnswer(503, "-1", "").retry_after);
  EXPECT_FALSE(JudgeAnswer(503, "Wed, 21 Oct 2026 07:28:00 GMT", "").retry_after);
  EXPECT_FALSE(JudgeAnswer(400, "7", "").retry_after);
}

}  // namespace
}  // namespace baton
