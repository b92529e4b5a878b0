// What a request says while it has no token, and when nobody is there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <string>

#include "common/base/status.h"
#include "tests/fakes/fake_inference_service.h"
#include "tests/tools/answers.h"
#include "tools/client/no_server.h"
#include "tools/generate/generate_client.h"
#include "tools/generate/wait_notice.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

PromptRequest Hello() { return {.spec = {}, .input = std::string("hello"), .unsendable = {}}; }

// The line that a request tells at a server of that health, which answers once the line is there.
std::string LineAt(bool serving) {
  std::promise<std::string> told;
  std::shared_future<std::string> line = told.get_future().share();
  FakeInferenceService server([line](const auto& spec, const std::string& text) {
    line.wait_for(std::chrono::seconds(30));
    return GoodAnswer(spec, text);
  });
  server.SetServing(serving);
  ClientFlags flags;
  flags.server = server.address();
  const auto client = GenerateClient::Connect(
      flags, {.after = {}, .tell = [&](const std::string& text) { told.set_value(text); }});
  EXPECT_TRUE(client.ok()) << client.status();
  EXPECT_TRUE((*client)->Run(Hello(), {}).status.ok());
  const bool was_told = line.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  return was_told ? line.get() : "";
}

TEST(GenerateWait, ARequestWithoutATokenSaysWhatItWaitsFor) {
  EXPECT_THAT(LineAt(false), AllOf(HasSubstr("waiting for a decode worker"), HasSubstr("healthy")));
  EXPECT_THAT(LineAt(true), HasSubstr("waiting for its turn"));
}

TEST(GenerateWait, AQuickAnswerSaysNothing) {
  FakeInferenceService server(GoodAnswer);
  ClientFlags flags;
  flags.server = server.address();
  bool told = false;
  {
    const auto client = GenerateClient::Connect(
        flags, {.after = std::chrono::hours(1), .tell = [&](const std::string&) { told = true; }});
    EXPECT_TRUE((*client)->Run(Hello(), {}).status.ok());
  }
  EXPECT_FALSE(told);
}

TEST(GenerateWait, ANoticeThatEndsWhileItAsksIsNotTold) {
  std::promise<void> asked, ended;
  bool told = false;
  {
    WaitNotice notice(
        {},
        [&] {
          asked.set_value();
          ended.get_future().wait();
          return std::string("x");
        },
        [&](const std::string&) { told = true; });
    asked.get_future().wait();
    notice.End();
    ended.set_value();
  }
  EXPECT_FALSE(told);
}

TEST(GenerateWait, NobodyThereSaysHowToStartAServer) {
  ClientFlags flags;
  flags.server = "127.0.0.1:1";
  const auto client = GenerateClient::Connect(flags);
  const Outcome outcome = (*client)->Run(Hello(), {});
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(outcome.status.message()),
              AllOf(HasSubstr("no answer from 127.0.0.1:1"), HasSubstr("baton serve DIR"),
                    HasSubstr("--server")));
}

TEST(GenerateWait, AServerThatClosesTheConnectionOrFailsTheHandshakeMayWantTls) {
  const auto explained = [](const char* why) {
    return std::string(ExplainNoServer(absl::UnavailableError(why), "h:1").message());
  };
  EXPECT_THAT(explained("last error: UNAVAILABLE: ipv4:127.0.0.1:1: Socket closed"),
              AllOf(HasSubstr("Socket closed"), HasSubstr("give --tls-ca")));
  EXPECT_THAT(explained("last error: UNKNOWN: Ssl handshake failed: SSL_ERROR_SSL"),
              AllOf(HasSubstr("SSL_ERROR_SSL"), HasSubstr("correct --tls-cert")));
}

TEST(GenerateWait, WhatAServerSaysStaysAsItIs) {
  FakeInferenceService server([](const auto&, const std::string&) {
    FakeInferenceService::Answer answer;
    answer.status = grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "no");
    return answer;
  });
  ClientFlags flags;
  flags.server = server.address();
  const auto client = GenerateClient::Connect(flags);
  EXPECT_EQ((*client)->Run(Hello(), {}).status, absl::InvalidArgumentError("no"));
}

}  // namespace
}  // namespace baton
