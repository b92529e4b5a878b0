#include "router/openai/openai_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "common/base/status.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

using Json = nlohmann::json;
using ::testing::Contains;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

Json ErrorOfReply(const HttpReply& reply) { return Json::parse(reply.body).at("error"); }

TEST(OpenAiErrorTest, CodesBecomeStatusesOfHttp) {
  const auto http = [](absl::StatusCode code) {
    return OpenAiErrorReply(absl::Status(code, "x"), OpenAiApi::kChat).status;
  };
  EXPECT_EQ(http(absl::StatusCode::kInvalidArgument), 400);
  EXPECT_EQ(http(absl::StatusCode::kUnimplemented), 400);
  EXPECT_EQ(http(absl::StatusCode::kUnauthenticated), 401);
  EXPECT_EQ(http(absl::StatusCode::kPermissionDenied), 403);
  EXPECT_EQ(http(absl::StatusCode::kNotFound), 404);
  EXPECT_EQ(http(absl::StatusCode::kResourceExhausted), 429);
  EXPECT_EQ(http(absl::StatusCode::kUnavailable), 503);
  EXPECT_EQ(http(absl::StatusCode::kDeadlineExceeded), 504);
  EXPECT_EQ(http(absl::StatusCode::kInternal), 500);
}

TEST(OpenAiErrorTest, FieldsHaveTheNamesOfTheProtocol) {
  const auto param = [](const std::string& field, OpenAiApi api) {
    return ErrorOfReply(
               OpenAiErrorReply(InvalidArgument(Reason::kInvalidSampling, field, "m"), api))
        .at("param");
  };
  EXPECT_EQ(param("spec.sampling.top_p", OpenAiApi::kChat), "top_p");
  EXPECT_EQ(param("spec.stop.max_tokens", OpenAiApi::kChat), "max_tokens");
  EXPECT_EQ(param("spec.stop.include_stop_in_output", OpenAiApi::kChat),
            "include_stop_str_in_output");
  EXPECT_EQ(param("spec.output.logprobs", OpenAiApi::kChat), "top_logprobs");
  EXPECT_EQ(param("spec.output.logprobs", OpenAiApi::kCompletions), "logprobs");
  EXPECT_EQ(param("spec.eos.predict_every", OpenAiApi::kCompletions), "baton.predict_every");
  EXPECT_EQ(param("input", OpenAiApi::kCompletions), "prompt");
  EXPECT_EQ(param("input", OpenAiApi::kChat), "messages");
  EXPECT_EQ(param("", OpenAiApi::kChat), Json());
}

TEST(OpenAiErrorTest, FieldsWithTwoNamesHaveThatOfTheBody) {
  const OpenAiNames names = {.schema = "response_format.json_schema",
                             .max_tokens = "max_completion_tokens"};
  const auto error = [&](const std::string& field, const std::string& message) {
    return ErrorOfReply(OpenAiErrorReply(InvalidArgument(Reason::kInvalidGuide, field, message),
                                         OpenAiApi::kChat, names));
  };
  const Json schema = error("spec.guided_json", "guided_json cannot guide an answer: guided_json");
  EXPECT_EQ(schema.at("param"), "response_format.json_schema");
  EXPECT_EQ(schema.at("message"),
            "response_format.json_schema cannot guide an answer: guided_json");
  EXPECT_EQ(error("guided_json", "guided_json became too complex").at("message"),
            "response_format.json_schema became too complex");
  EXPECT_EQ(error("spec.stop.max_tokens", "max_tokens is 9").at("message"),
            "max_completion_tokens is 9");
  EXPECT_EQ(error("spec.json_object", "m").at("param"), "response_format.type");
}

TEST(OpenAiErrorTest, MessagesNameThemAlike) {
  const Json error = ErrorOfReply(OpenAiErrorReply(
      InvalidArgument(Reason::kLimitExceeded, "spec.stop.stop", "spec.stop.stop has 65 entries"),
      OpenAiApi::kChat));
  EXPECT_EQ(error.at("message"), "stop has 65 entries");
  EXPECT_EQ(error.at("type"), "invalid_request_error");
  EXPECT_EQ(error.at("code"), "limit_exceeded");
  const auto logprobs = [](OpenAiApi api) {
    return ErrorOfReply(OpenAiErrorReply(
        InvalidArgument(Reason::kInvalidSampling, "spec.output.logprobs", "logprobs is 21"), api));
  };
  EXPECT_EQ(logprobs(OpenAiApi::kChat).at("message"), "top_logprobs is 21");
  EXPECT_EQ(logprobs(OpenAiApi::kCompletions).at("message"), "logprobs is 21");
}

TEST(OpenAiErrorTest, TooLongHasTheCodeThatClientsLookFor) {
  EXPECT_EQ(ErrorOfReply(OpenAiErrorReply(InvalidArgument(Reason::kTooLong, "input", "long"),
                                          OpenAiApi::kChat))
                .at("code"),
            "context_length_exceeded");
}

TEST(OpenAiErrorTest, WhoMayTryAgainIsToldWhen) {
  const HttpReply reply = OpenAiErrorReply(
      MakeError(absl::StatusCode::kResourceExhausted,
                {.reason = Reason::kQueueFull, .retry_after = std::chrono::milliseconds(1200)},
                "full"),
      OpenAiApi::kChat);
  EXPECT_EQ(reply.status, 429);
  EXPECT_THAT(reply.headers, Contains(Pair("retry-after", "2")));
  EXPECT_THAT(reply.headers, Contains(Pair("retry-after-ms", "1200")));
  EXPECT_EQ(ErrorOfReply(reply).at("code"), "queue_full");
  EXPECT_THAT(reply.headers, Not(Contains(Key("x-should-retry"))));
}

TEST(OpenAiErrorTest, WhatWouldEndTheSameIsNotToBeRepeated) {
  using enum absl::StatusCode;
  for (const auto& [code, reason, repeats] :
       {std::tuple(kInternal, Reason::kLogitsNotFinite, false),
        std::tuple(kInternal, Reason::kRequestKilledWorkers, false),
        std::tuple(kDeadlineExceeded, Reason::kNone, false),
        std::tuple(kInternal, Reason::kNone, true),
        std::tuple(kUnavailable, Reason::kNoWorker, true)}) {
    const HttpReply reply =
        OpenAiErrorReply(MakeError(code, {.reason = reason}, "why"), OpenAiApi::kChat);
    const auto told = Contains(Pair("x-should-retry", "false"));
    if (repeats) {
      EXPECT_THAT(reply.headers, Not(told));
    } else {
      EXPECT_THAT(reply.headers, told);
    }
  }
}

}  // namespace
}  // namespace baton
