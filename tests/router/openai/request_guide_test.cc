#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "nlohmann/json.hpp"
#include "router/openai/openai_request.h"
#include "router/openai/request_draft.h"

namespace baton {
namespace {

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

}  // namespace
}  // namespace baton
