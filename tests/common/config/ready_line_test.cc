#include "common/config/ready_line.h"

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(ReadyLine, IsOneJsonObjectWithBareAddresses) {
  EXPECT_EQ(
      FormatReadyLine({.role = "decode", .grpc = "127.0.0.1:50053", .admin = "127.0.0.1:8082"}),
      R"({"ready":true,"role":"decode","grpc":"127.0.0.1:50053","admin":"127.0.0.1:8082"})");
}

TEST(ReadyLine, ParsesWhatItFormats) {
  const auto parsed = ParseReadyLine(FormatReadyLine({"router", "[::1]:1", "[::1]:2"}));
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->role, "router");
  EXPECT_EQ(parsed->grpc, "[::1]:1");
  EXPECT_EQ(parsed->admin, "[::1]:2");
}

TEST(ReadyLine, AnythingElseIsNone) {
  for (const char* line :
       {"", "listening", "[]", "{}", R"({"ready":false,"role":"a","grpc":"b","admin":"c"})",
        R"({"ready":true,"role":"a","grpc":"b"})",
        R"({"ready":true,"role":"a","grpc":1,"admin":"c"})"}) {
    EXPECT_FALSE(ParseReadyLine(line).has_value()) << line;
  }
}

}  // namespace
}  // namespace baton
