// What becomes of a command whose output has no room, or whose reader has gone.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <iostream>
#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/fake_inference_service.h"
#include "tests/tools/answers.h"
#include "tools/commands.h"
#include "tools/serve/child_process.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

struct Ended {
  int exit = 0;
  std::string err;
};

// Runs a command whose stdout is `out`, and whose stdin is `input`.
Ended RunInto(int out, const Arguments& arguments, const std::string& input = "") {
  std::istringstream stream(input);
  std::streambuf* const stdin_before = std::cin.rdbuf(stream.rdbuf());
  std::fflush(stdout);
  const UniqueFd stdout_before(dup(STDOUT_FILENO));
  dup2(out, STDOUT_FILENO);
  ::testing::internal::CaptureStderr();
  Ended ended;
  ended.exit = RunBaton(arguments);
  ended.err = ::testing::internal::GetCapturedStderr();
  dup2(stdout_before.get(), STDOUT_FILENO);
  std::clearerr(stdout);
  std::cin.rdbuf(stdin_before);
  return ended;
}

Ended RunWithoutRoom(const Arguments& arguments, const std::string& input = "") {
  const UniqueFd full(open("/dev/full", O_WRONLY | O_CLOEXEC));
  return RunInto(full.get(), arguments, input);
}

TEST(Output, WhatStdoutDoesNotTakeIsAFailure) {
  for (const Arguments& arguments :
       {Arguments{"version"}, Arguments{"metrics", "list"}, Arguments{"serve", "--help", "all"},
        Arguments{"--help"}, Arguments{"config", "print", "router"}}) {
    const Ended ended = RunWithoutRoom(arguments);
    EXPECT_EQ(ended.exit, 4) << arguments[0];
    EXPECT_THAT(ended.err, HasSubstr("baton: fatal: cannot write the output: ")) << arguments[0];
  }
  EXPECT_THAT(RunWithoutRoom({"version"}).err, HasSubstr("No space left on device"));
}

TEST(Output, AnotherFailureIsToldInItsPlace) {
  const Ended ended = RunWithoutRoom({"version", "--jsn"});
  EXPECT_EQ(ended.exit, 2);
  EXPECT_THAT(ended.err, ::testing::Not(HasSubstr("cannot write")));
}

TEST(Output, GenerateAsksForNoMoreThanItCanPrint) {
  constexpr size_t kPrompts = 500;
  std::string prompts;
  for (size_t i = 0; i < kPrompts; ++i) prompts += "{\"prompt\":\"a\"}\n";
  for (const bool json : {true, false}) {
    FakeInferenceService server(GoodAnswer);
    Arguments arguments = {"generate", "--server", server.address(), "--prompts", "-"};
    if (json) arguments.emplace_back("--json");
    const Ended ended = RunWithoutRoom(arguments, prompts);
    EXPECT_EQ(ended.exit, 4) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr("cannot write the output"));
    // With --json, a thread of its own sends the next while the first answer finds no room.
    EXPECT_LT(server.generate_requests().size(), json ? kPrompts : 2);
  }
}

TEST(Output, AReaderThatHasGoneIsNoFailure) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  close(ends[0]);
  const UniqueFd write_end(ends[1]);
  const auto pipe_action = std::signal(SIGPIPE, SIG_IGN);
  const Ended ended = RunInto(write_end.get(), {"metrics", "list"});
  std::signal(SIGPIPE, pipe_action);
  EXPECT_EQ(ended.exit, 0);
  EXPECT_EQ(ended.err, "");
}

}  // namespace
}  // namespace baton
