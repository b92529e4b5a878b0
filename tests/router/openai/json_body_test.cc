#include "router/openai/json_body.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "tests/common/base/taken_memory.h"
#include "tests/router/openai/body_refusal.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

TEST(JsonBodyTest, AZeroByteIsNoEndOfTheBody) {
  const std::string whole = R"({"prompt":"x"})";
  for (const std::string& behind : {std::string(1, '\0'), std::string("\0garbage\"{", 10)}) {
    const auto json = ParseJsonBody(OpenAiApi::kCompletions, whole + behind);
    ASSERT_FALSE(json.ok());
    EXPECT_THAT(std::string(json.status().message()),
                HasSubstr("not JSON in UTF-8: at byte 15, near a zero byte; expected"));
  }
  const auto json = ParseJsonBody(OpenAiApi::kCompletions, R"({"prompt":"a\u0000b"})");
  EXPECT_EQ(json.value()["prompt"], std::string("a\0b", 3));
}

using Values = std::vector<std::pair<std::string, std::string>>;

absl::Status ChatRefusal(const std::string& body) {
  return ParseJsonBody(OpenAiApi::kChat, body).status();
}

TEST(JsonBodyTest, LimitsOfOneApiAreNoneOfTheOther) {
  const std::string body = R"({"messages":)" + ListOf("1", 4097) + "}";
  EXPECT_EQ(ReasonOf(ChatRefusal(body)), Reason::kLimitExceeded);
  EXPECT_TRUE(ParseJsonBody(OpenAiApi::kCompletions, body).ok());
}

TEST(JsonBodyTest, WhatIsBoundedStandsAtItsPlaceAlone) {
  const std::string many = ListOf("1", 5000), text = "\"" + std::string(5000, 'x') + "\"";
  for (const std::string& body :
       {R"({"prompt":)" + many + "}", R"({"a":{"messages":)" + many + "}}",
        R"({"messages":[{"content":)" + text + "}]}", R"({"baton":{"stop":)" + many + "}}",
        R"({"role":)" + text + R"(,"messages":[{"x":{"role":)" + text + "}}]}",
        R"({"stop":)" + ListOf("\"" + std::string(256, 's') + "\"", 64) + "}"}) {
    EXPECT_TRUE(ChatRefusal(body).ok()) << ChatRefusal(body);
  }
}

// The tree of this body takes more than ten times its bytes.
TEST(JsonBodyTest, AMillionValuesTooManyAreRefusedBeforeAnyTreeIsMade) {
  constexpr long kFewKib = 8192;
  const std::string body =
      R"({"messages":)" + ListOf(R"({"role":"u","content":""})", 500'000) + "}";
  absl::Status refused;
  EXPECT_LE(TakenKib([&] { refused = ChatRefusal(body); }), kFewKib);
  EXPECT_EQ(DetailOf(refused).field, "messages");
  EXPECT_EQ(DetailOf(refused).values, (Values{{"have", "500000"}, {"limit", "4096"}}));
}

TEST(JsonBodyTest, SchemasAreCountedAsTheyStandInTheBody) {
  const std::string most = "{\"a\":" + std::string(65536 - 8, ' ') + "{}}";
  const std::string more = "{\"a\": " + std::string(65536 - 8, ' ') + "{}}";
  const std::string keys = "{\"a\":" + ListOf(R"({"b":1})", 20'000) + "}";
  for (const auto& [before, behind, field] :
       std::vector<std::tuple<std::string, std::string, std::string>>{
           {R"({"guided_json":)", "}", "guided_json"},
           {R"({"response_format":{"json_schema":{"name":"n","schema":)", "}}}",
            "response_format.json_schema"}}) {
    EXPECT_TRUE(ChatRefusal(before + most + behind).ok());
    const ErrorDetail one = DetailOf(ChatRefusal(before + more + behind));
    EXPECT_EQ(one.field, field);
    EXPECT_EQ(one.values, (Values{{"have", "65537"}, {"limit", "65536"}}));
    const ErrorDetail many = DetailOf(ChatRefusal(before + keys + behind));
    EXPECT_EQ(many.values, (Values{{"have", std::to_string(keys.size())}, {"limit", "65536"}}));
  }
}

TEST(JsonBodyTest, WhateverIsTooMuchIsToldWithFieldAndNumbers) {
  const ErrorDetail levels =
      DetailOf(ChatRefusal(R"({"a":)" + std::string(40, '[') + std::string(40, ']') + "}"));
  EXPECT_EQ(levels.field, "a");
  EXPECT_EQ(levels.values, (Values{{"have", "more than 32"}, {"limit", "32"}}));
  const ErrorDetail values = DetailOf(ChatRefusal(R"({"prompt":)" + ListOf("1", 1 << 21) + "}"));
  EXPECT_EQ(values.reason, Reason::kLimitExceeded);
  EXPECT_EQ(values.field, "prompt");
  EXPECT_EQ(values.values, (Values{{"have", "more than 2097152"}, {"limit", "2097152"}}));
  const ErrorDetail number = DetailOf(ChatRefusal(R"({"temperature":1e400})"));
  EXPECT_EQ(number.reason, Reason::kLimitExceeded);
  EXPECT_EQ(number.field, "temperature");
  EXPECT_EQ(number.values, (Values{{"have", "1e400"}, {"limit", "1.8e308"}}));
}

}  // namespace
}  // namespace baton
