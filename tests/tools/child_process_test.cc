#include "tools/serve/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/eventually.h"
#include "tools/serve/line_reader.h"

namespace baton {
namespace {

using ::testing::ElementsAre;

absl::StatusOr<ChildProcess> Shell(const std::string& script,
                                   std::vector<std::string> environment = {}) {
  return ChildProcess::Start(
      {.program = "/bin/sh", .arguments = {"-c", script}, .environment = std::move(environment)});
}

// Until the end of the file.
std::vector<std::string> AllLines(int fd) {
  LineReader reader;
  std::vector<std::string> lines;
  for (bool at_end = false; !at_end;) {
    pollfd poller{fd, POLLIN, 0};
    EXPECT_EQ(poll(&poller, 1, 10'000), 1) << "nothing came in 10 s";
    for (auto& line : reader.Read(fd, &at_end)) lines.push_back(std::move(line));
  }
  return lines;
}

int WaitFor(ChildProcess* child) {
  std::optional<int> code;
  EXPECT_TRUE(Eventually([&] { return (code = child->Reap()).has_value(); }));
  return code.value_or(-1);
}

TEST(ChildProcess, SeparatesItsOutputs) {
  auto child = Shell("echo one; echo two >&2; printf three");
  ASSERT_TRUE(child.ok()) << child.status();
  EXPECT_THAT(AllLines(child->out()), ElementsAre("one", "three"));
  EXPECT_THAT(AllLines(child->err()), ElementsAre("two"));
  EXPECT_EQ(WaitFor(&*child), 0);
}

TEST(ChildProcess, TellsExitCodesAndSignals) {
  auto seven = Shell("exit 7");
  EXPECT_EQ(WaitFor(&*seven), 7);
  auto sleeper = Shell("exec sleep 100");
  EXPECT_EQ(sleeper->Reap(), std::nullopt);
  sleeper->Signal(SIGTERM);
  EXPECT_EQ(WaitFor(&*sleeper), 128 + SIGTERM);
}

TEST(ChildProcess, HasTheGivenEnvironmentOnly) {
  auto child = Shell("echo $A-$HOME-", {"A=b"});
  EXPECT_THAT(AllLines(child->out()), ElementsAre("b--"));
}

TEST(ChildProcess, DiesWithItsObject) {
  pid_t pid = 0;
  {
    auto child = Shell("exec sleep 100");
    ASSERT_TRUE(child.ok());
    pid = child->pid();
    const ChildProcess moved = *std::move(child);
    EXPECT_EQ(kill(pid, 0), 0);
  }
  EXPECT_EQ(kill(pid, 0), -1);
}

TEST(ChildProcess, DiesWithItsParent) {
  // A child of this test stands for the parent; what it starts must not outlive it.
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    auto child = Shell("exec sleep 100");
    const pid_t pid = child->pid();
    (void)!write(fds[1], &pid, sizeof(pid));
    pause();
    _exit(0);
  }
  pid_t grandchild = 0;
  ASSERT_EQ(read(fds[0], &grandchild, sizeof(grandchild)), ssize_t{sizeof(grandchild)});
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  // Gone, or a zombie that init has yet to collect: it holds no memory either way.
  const std::string path = "/proc/" + std::to_string(grandchild) + "/cmdline";
  EXPECT_TRUE(Eventually([&] {
    std::ifstream file(path);
    std::string text;
    return !file.good() || !std::getline(file, text);
  }));
  close(fds[0]);
  close(fds[1]);
}

TEST(ChildProcess, AMissingProgramIsAnError) {
  const auto child =
      ChildProcess::Start({.program = "/nowhere/baton", .arguments = {}, .environment = {}});
  EXPECT_EQ(child.status().code(), absl::StatusCode::kNotFound);
}

TEST(LineReader, KeepsHalfLinesForLaterAndCutsEndlessOnes) {
  int fds[2];
  ASSERT_EQ(pipe2(fds, O_NONBLOCK), 0);
  LineReader reader;
  bool at_end = false;
  ASSERT_EQ(write(fds[1], "a\nb", 3), 3);
  EXPECT_THAT(reader.Read(fds[0], &at_end), ElementsAre("a"));
  ASSERT_EQ(write(fds[1], "c\n\n", 3), 3);
  EXPECT_THAT(reader.Read(fds[0], &at_end), ElementsAre("bc", ""));
  const std::string endless(65536, 'x');
  ASSERT_EQ(write(fds[1], endless.data(), endless.size()), ssize_t{65536});
  EXPECT_EQ(reader.Read(fds[0], &at_end).size(), 1u);
  EXPECT_FALSE(at_end);
  close(fds[1]);
  reader.Read(fds[0], &at_end);
  EXPECT_TRUE(at_end);
  close(fds[0]);
}

}  // namespace
}  // namespace baton
