#include "common/config/ready_line.h"

#include <unistd.h>

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(ReadyLine, IsOneJsonObjectWithBareAddresses) {
  EXPECT_EQ(
      FormatReadyLine(
          {.role = "decode", .pid = 7, .grpc = "127.0.0.1:50053", .admin = "127.0.0.1:8082"}),
      R"({"ready":true,"role":"decode","pid":7,"grpc":"127.0.0.1:50053","admin":"127.0.0.1:8082"})");
}

TEST(ReadyLine, ParsesWhatItFormats) {
  for (const bool is_ready : {true, false}) {
    const ReadyLine ready = {is_ready, "router", 4'000'000, "[::1]:1", "[::1]:2", ""};
    EXPECT_EQ(ParseReadyLine(FormatReadyLine(ready)), ready);
  }
}

TEST(ReadyLine, SaysWhereHttpIsServed) {
  const ReadyLine ready = {.role = "router", .pid = 7, .grpc = "a", .admin = "b", .http = "c"};
  EXPECT_EQ(FormatReadyLine(ready),
            R"({"ready":true,"role":"router","pid":7,"grpc":"a","admin":"b","http":"c"})");
  EXPECT_EQ(ParseReadyLine(FormatReadyLine(ready)), ready);
}

TEST(ReadyLine, SaysWhetherTheServerIsReady) {
  EXPECT_EQ(
      FormatReadyLine({.ready = false, .role = "router", .pid = 7, .grpc = "a", .admin = "b"}),
      R"({"ready":false,"role":"router","pid":7,"grpc":"a","admin":"b"})");
}

TEST(ReadyLine, IsPrintedWithThePidOfTheProcess) {
  testing::internal::CaptureStdout();
  PrintReadyLine({.role = "decode", .grpc = "h:1", .admin = "h:2"});
  const std::string printed = testing::internal::GetCapturedStdout();
  EXPECT_EQ(
      printed,
      FormatReadyLine({.role = "decode", .pid = getpid(), .grpc = "h:1", .admin = "h:2"}) + "\n");
}

TEST(ReadyLine, AnythingElseIsNone) {
  for (const char* line :
       {"", "listening", "[]", "{}", R"({"ready":1,"role":"a","pid":1,"grpc":"b","admin":"c"})",
        R"({"ready":true,"role":"a","pid":1,"grpc":"b"})",
        R"({"ready":true,"role":"a","grpc":"b","admin":"c"})",
        R"({"ready":true,"role":"a","pid":"1","grpc":"b","admin":"c"})",
        R"({"ready":true,"role":"a","pid":1,"grpc":1,"admin":"c"})"}) {
    EXPECT_FALSE(ParseReadyLine(line).has_value()) << line;
  }
}

}  // namespace
}  // namespace baton
