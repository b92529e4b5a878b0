#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "common/base/status.h"
#include "nlohmann/json.hpp"
#include "router/openai/openai_request.h"
#include "router/openai/request_draft.h"

namespace baton {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr std::string_view kMark = "\xef\xbb\xbf";  // of the order of bytes, as editors write it

TEST(RequestGuideTest, ABodyBehindAByteOrderMarkKeepsItsGuide) {
  for (const std::string guide :
       {R"("guided_json":{"z":1,"a":2})",
        R"("response_format":{"type":"json_schema","json_schema":{"schema":{"z":1,"a":2}}})"}) {
    const std::string body = std::string(kMark) + R"({"prompt":"x",)" + guide + "}";
    const auto request = ReadOpenAiRequest(OpenAiApi::kCompletions, body);
    ASSERT_TRUE(request.ok()) << request.status();
    EXPECT_EQ(request->spec.guided_json(), R"({"z":1,"a":2})");
  }
}

// Without its text a schema would be the empty one, which guides nothing.
TEST(RequestGuideTest, ASchemaWhoseTextIsNotFoundIsNoEmptyGuide) {
  const auto json =
      nlohmann::json::parse(R"({"type":"json_schema","json_schema":{"schema":{"type":"object"}}})");
  RequestDraft draft{.request = {}, .body = "?"};
  for (const absl::Status& status :
       {ReadGuidedJson(json, &draft), ReadResponseFormat(json, &draft)}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(status.message()), HasSubstr("was not found in the body"));
  }
  EXPECT_EQ(draft.request.spec.guided_json(), "");
}

TEST(RequestGuideTest, LimitsAreThoseOfTheTable) {
  const auto text = [](int bytes) { return "\"" + std::string(bytes, 'a') + "\""; };
  const auto list = [&](int count, int bytes) {
    std::string choices = "[" + text(bytes);
    for (int i = 1; i < count; ++i) choices += ",\"b\"";
    return choices + "]";
  };
  struct Case {
    std::string field;
    std::string largest;
    std::string larger;
    std::string have;
  };
  for (const Case& each : {Case{"guided_regex", text(16384), text(16385), "16385"},
                           Case{"guided_grammar", text(65536), text(65537), "65537"},
                           Case{"guided_json", text(65536), text(65537), "65537"},
                           Case{"guided_choice", list(1000, 1024), list(1001, 1024), "1001"},
                           Case{"guided_choice", list(1000, 1024), list(1000, 1025), "1025"}}) {
    const std::string body = R"({"prompt":"x",")" + each.field + "\":";
    EXPECT_TRUE(ReadOpenAiRequest(OpenAiApi::kCompletions, body + each.largest + "}").ok());
    const auto refused = ReadOpenAiRequest(OpenAiApi::kCompletions, body + each.larger + "}");
    const ErrorDetail detail = DetailOf(refused.status());
    EXPECT_EQ(detail.reason, Reason::kLimitExceeded) << refused.status();
    EXPECT_THAT(detail.field, EndsWith(each.field));
    ASSERT_EQ(detail.values.size(), 2U);
    EXPECT_EQ(detail.values[0].second, each.have);
  }
}

}  // namespace
}  // namespace baton
