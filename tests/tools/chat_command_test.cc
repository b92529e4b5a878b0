#include <iostream>
#include <sstream>

#include "common/base/status.h"
#include "common/rpc/status_map.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/fake_inference_service.h"
#include "tests/tools/answers.h"
#include "tools/commands.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

int Chat(const Arguments& arguments, const std::string& input, std::string* out) {
  std::istringstream stream(input);
  std::streambuf* const old = std::cin.rdbuf(stream.rdbuf());
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const int exit = ChatCommand({arguments});
  *out = ::testing::internal::GetCapturedStdout();
  ::testing::internal::GetCapturedStderr();
  std::cin.rdbuf(old);
  return exit;
}

FakeInferenceService::Answer Echo(const v1::GenerationSpec& spec, const std::string& text) {
  if (text != "fail") return GoodAnswer(spec, "re: " + text);
  FakeInferenceService::Answer answer;
  answer.status = ToGrpcStatus(absl::UnavailableError("gone"));
  return answer;
}

TEST(ChatCommand, KeepsTheConversation) {
  FakeInferenceService server(Echo);
  std::string out;
  EXPECT_EQ(Chat({"--server", server.address(), "--system", "be brief"}, "one\n\ntwo\n", &out), 0);
  EXPECT_THAT(out, HasSubstr("re: one\n"));
  const auto requests = server.chat_requests();
  ASSERT_EQ(requests.size(), 2u);
  ASSERT_EQ(requests[1].messages_size(), 4);
  EXPECT_EQ(requests[1].messages(0).role(), "system");
  EXPECT_EQ(requests[1].messages(1).content(), "one");
  EXPECT_EQ(requests[1].messages(2).role(), "assistant");
  EXPECT_EQ(requests[1].messages(2).content(), "re: one");
  EXPECT_EQ(requests[1].messages(3).content(), "two");
}

TEST(ChatCommand, ResetForgetsAndExitEnds) {
  FakeInferenceService server(Echo);
  std::string out;
  EXPECT_EQ(Chat({"--server", server.address()}, "one\n/reset\n/what\ntwo\n/exit\nthree\n", &out),
            0);
  const auto requests = server.chat_requests();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[1].messages_size(), 1);
}

TEST(ChatCommand, AFailedTurnIsTakenBackAndExits1) {
  FakeInferenceService server(Echo);
  std::string out;
  EXPECT_EQ(Chat({"--server", server.address()}, "fail\nagain\n", &out), 1);
  const auto requests = server.chat_requests();
  ASSERT_EQ(requests.size(), 2u);
  ASSERT_EQ(requests[1].messages_size(), 1);
  EXPECT_EQ(requests[1].messages(0).content(), "again");
}

TEST(ChatCommand, WrongUsageExits2) {
  std::string out;
  EXPECT_EQ(Chat({"--prompt", "x"}, "", &out), 2);
}

}  // namespace
}  // namespace baton
