#include "router/openai/json_body.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace baton {
namespace {

using ::testing::HasSubstr;

TEST(JsonBodyTest, AZeroByteIsNoEndOfTheBody) {
  const std::string whole = R"({"prompt":"x"})";
  for (const std::string& behind : {std::string(1, '\0'), std::string("\0garbage\"{", 10)}) {
    const auto json = ParseJsonBody(whole + behind);
    ASSERT_FALSE(json.ok());
    EXPECT_THAT(std::string(json.status().message()),
                HasSubstr("not JSON in UTF-8: at byte 15, near a zero byte; expected"));
  }
  EXPECT_EQ(ParseJsonBody(R"({"prompt":"a\u0000b"})").value()["prompt"], std::string("a\0b", 3));
}

}  // namespace
}  // namespace baton
