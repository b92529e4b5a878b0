// What the body of a request may be at most, and bodies that are none.
#include "router/openai/body_limits.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "common/base/status.h"
#include "router/openai/openai_request.h"
#include "tests/router/openai/body_refusal.h"

namespace baton {
namespace {

TEST(OpenAiBodyTest, LimitsAreThoseOfTheTable) {
  const auto largest = ReadOpenAiRequest(OpenAiApi::kCompletions,
                                         R"({"prompt":"x","stop":)" + ListOf(R"("x")", 64) + "}");
  EXPECT_TRUE(largest.ok()) << largest.status();
  const OpenAiApi plain = OpenAiApi::kCompletions;
  ExpectBodyRefused(plain, {R"({"prompt":"x","stop":)" + ListOf(R"("x")", 65) + "}",
                            "spec.stop.stop", "65 entries"});
  ExpectBodyRefused(plain, {R"({"prompt":"x","stop":")" + std::string(257, 'a') + "\"}",
                            "spec.stop.stop", "257 bytes"});
  ExpectBodyRefused(plain, {R"({"prompt":"x","stop_token_ids":)" + ListOf("1", 257) + "}",
                            "spec.stop.stop_token_ids", "257"});
  ExpectBodyRefused(plain, {R"({"prompt":"x","request_id":")" + std::string(257, 'a') + "\"}",
                            "spec.request_id", "257"});
  ExpectBodyRefused(plain, {R"({"prompt":"x","baton":{"tag":")" + std::string(65, 'a') + "\"}}",
                            "spec.tag", "65"});
  ExpectBodyRefused(OpenAiApi::kChat,
                    {R"({"messages":)" + ListOf(R"({"role":"user","content":""})", 4097) + "}",
                     "messages", "4097"});
  ExpectBodyRefused(OpenAiApi::kChat,
                    {R"({"messages":[{"role":")" + std::string(65, 'r') + R"(","content":""}]})",
                     "messages.role", "65"});
  ExpectBodyRefused(OpenAiApi::kChat, {R"({"messages":[{"role":"user","content":"","name":")" +
                                           std::string(65, 'n') + "\"}]}",
                                       "messages.name", "messages.name has 65 bytes"});
  std::string biases = R"("0":1)";
  for (int i = 1; i <= 1024; ++i) biases += ",\"" + std::to_string(i) + "\":1";
  ExpectBodyRefused(plain, {R"({"prompt":"x","logit_bias":{)" + biases + "}}",
                            "spec.sampling.logit_bias", "1025 entries"});
  ExpectBodyRefused(plain, {R"({"prompt":"x","cache_salt":")" + std::string(257, 'a') + "\"}",
                            "spec.cache_salt", "257"});
}

TEST(OpenAiBodyTest, NumbersThatDoNotFitAreSaidToBeSo) {
  const auto refuse = [](const std::string& fields, const std::string& field,
                         const std::string& says) {
    ExpectBodyRefused(OpenAiApi::kCompletions, {R"({"prompt":"x",)" + fields + "}", field, says});
  };
  const auto largest =
      ReadOpenAiRequest(OpenAiApi::kCompletions, R"({"prompt":"x","seed":18446744073709551615})");
  ASSERT_TRUE(largest.ok()) << largest.status();
  EXPECT_EQ(largest->spec.sampling().seed(), ~uint64_t{0});
  refuse(R"("seed":18446744073709551616)", "seed", "from 0 to 18446744073709551615");
  refuse(R"("seed":-2)", "seed", "seed is -2; expected a whole number from 0");
  refuse(R"("seed":1.5)", "seed", "seed is 1.5; expected a whole number from 0");
  refuse(R"("temperature":1e400)", "temperature",
         "the number '1e400', which ends at byte 33, is too large");
  refuse(R"("temperature":NaN)", "", "not JSON");
  refuse(R"("logit_bias":{"5":1,"05":2})", "logit_bias", "names the token 5 twice");
}

TEST(OpenAiBodyTest, NumbersThatFitNoFieldAreToldWithTheNearestThatDoes) {
  const auto limit = [](const std::string& value) {
    const auto request =
        ReadOpenAiRequest(OpenAiApi::kCompletions, R"({"prompt":"x","max_tokens":)" + value + "}");
    const ErrorDetail detail = DetailOf(request.status());
    EXPECT_EQ(detail.reason, Reason::kLimitExceeded);
    EXPECT_EQ(detail.values.at(0), (std::pair<std::string, std::string>("have", value)));
    return detail.values.at(1).second;
  };
  EXPECT_EQ(limit("3000000000"), "2147483647");
  EXPECT_EQ(limit("-3000000000"), "-2147483648");
  EXPECT_EQ(limit("18446744073709551615"), "9223372036854775807");
}

TEST(OpenAiBodyTest, BodiesThatAreNoObjectAreRefused) {
  const OpenAiApi plain = OpenAiApi::kCompletions;
  ExpectBodyRefused(plain, {"", "", "not JSON"});
  ExpectBodyRefused(plain, {R"({"prompt":"x")", "", "not JSON"});
  ExpectBodyRefused(plain, {R"({"prompt":"x"} {})", "", "not JSON"});
  ExpectBodyRefused(plain, {"{\"prompt\":\"\xff\"}", "", "not JSON"});
  ExpectBodyRefused(plain, {R"({"prompt":"\ud800"})", "", "not JSON"});
  ExpectBodyRefused(plain, {"[]", "", "expected an object"});
  ExpectBodyRefused(plain, {R"({"prompt":"x","prompt":"y"})", "", "stands twice"});
  ExpectBodyRefused(plain, {R"({"prompt":"x","a":{"b":1,"b":2}})", "", "'b' stands twice"});
  ExpectBodyRefused(
      plain,
      {R"({"prompt":"x","a":)" + std::string(40, '[') + std::string(40, ']') + "}", "a", "levels"});
  ExpectBodyRefused(plain, {std::string(1'000'000, '['), "", "levels"});
}

}  // namespace
}  // namespace baton
