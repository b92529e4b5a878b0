#include "tools/batch/http_answer.h"

#include "gtest/gtest.h"

namespace baton::batch {
namespace {

TEST(HttpAnswer, WhatFollowsIsByTheStatus) {
  const auto verdict = [](long status) { return VerdictOf({.status = status}); };
  for (const long status : {200, 400, 404, 413, 415, 500, 501}) {
    EXPECT_EQ(verdict(status), Verdict::kFinal) << status;
  }
  for (const long status : {429, 502, 503}) EXPECT_EQ(verdict(status), Verdict::kRefused) << status;
  for (const long status : {408, 504}) EXPECT_EQ(verdict(status), Verdict::kSuspect) << status;
  for (const long status : {401, 403}) EXPECT_EQ(verdict(status), Verdict::kUnwanted) << status;
}

TEST(HttpAnswer, WithoutAStatusItDependsOnWhetherTheRequestArrived) {
  EXPECT_EQ(VerdictOf({.was_sent = false}), Verdict::kAway);
  EXPECT_EQ(VerdictOf({.was_sent = true}), Verdict::kSuspect);
  EXPECT_EQ(VerdictOf({.was_sent = true, .too_large = true}), Verdict::kFinal);
}

TEST(HttpAnswer, TokensAreThoseOfTheUsage) {
  EXPECT_EQ(TokensOfBody(R"({"usage":{"completion_tokens":7}})"), 7);
  EXPECT_EQ(TokensOfBody("{}"), 0);
  EXPECT_EQ(TokensOfBody(R"({"usage":{"completion_tokens":"7"}})"), 0);
  EXPECT_EQ(TokensOfBody("<html>"), std::nullopt);
  EXPECT_EQ(TokensOfBody("[]"), std::nullopt);
  // A parser of C strings would see the beginning only.
  EXPECT_EQ(TokensOfBody(std::string("{}\0 and more", 12)), std::nullopt);
}

TEST(HttpAnswer, IsDescribedInTheServicesWords) {
  EXPECT_EQ(Describe({.status = 400, .body = R"({"error":{"message":"no"}})"}), "HTTP 400: no");
  EXPECT_EQ(Describe({.status = 502, .body = "<html>"}), "HTTP 502");
  EXPECT_EQ(
      Describe({.status = 429,
                .body = R"({"error":{"message":"it's «full»\n\u001b[31m\u009b2J\u007f\u00a0!"}})"}),
      R"(HTTP 429: it's «full»\n\x1b[31m\xc2\x9b2J\x7f)"
      "\u00a0!");
  EXPECT_EQ(Describe({.trouble = "refused"}), "refused");
}

}  // namespace
}  // namespace baton::batch
