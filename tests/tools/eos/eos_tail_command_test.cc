#include <unistd.h>

#include <csignal>
#include <thread>

#include "common/base/stop_signals.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tools/eos/eos_rows.h"
#include "tests/tools/eos/log_files.h"
#include "tests/tools/run_tool.h"

namespace baton {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class EosTailTest : public LogFilesTest {};

TEST_F(EosTailTest, ShowsTwentyRowsOrAllOfARequest) {
  const std::string log = File("log", EosLines("a", 30, FinishReason::kStopEos));
  const ToolRun last = RunTool({"eos", "tail", log});
  EXPECT_EQ(last.exit, 0) << last.err;
  EXPECT_THAT(last.out, Not(ContainsRegex("\na +10 ")));
  EXPECT_THAT(last.out, ContainsRegex("\na +11 "));
  EXPECT_THAT(last.out, HasSubstr("stop_eos\n"));
  EXPECT_THAT(RunTool({"eos", "tail", log, "--request", "a"}).out, ContainsRegex("\na +1 "));
  EXPECT_THAT(RunTool({"eos", "tail", log, "--rows", "1"}).out, Not(ContainsRegex("\na +29 ")));
}

TEST_F(EosTailTest, ALineThatIsNoRowIsAFailure) {
  const ToolRun run = RunTool({"eos", "tail", File("log", EosLine({}) + "# Baton\n")});
  EXPECT_EQ(run.exit, 1);
  EXPECT_THAT(run.err, HasSubstr("log:2 is no row"));
  EXPECT_THAT(run.out, ContainsRegex("\nr1 +1 "));
}

// Following changes what signals do; this puts it back.
class EosFollowTest : public LogFilesTest {
 protected:
  EosFollowTest() : pipe_action_(std::signal(SIGPIPE, SIG_DFL)) {
    pthread_sigmask(SIG_BLOCK, nullptr, &mask_);
  }
  ~EosFollowTest() override {
    std::signal(SIGPIPE, pipe_action_);
    pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
  }

 private:
  sigset_t mask_{};
  sighandler_t pipe_action_;
};

TEST_F(EosFollowTest, SigintEndsItCleanly) {
  const base::StopSignals blocked;  // so that the signal waits for the command
  kill(getpid(), SIGINT);
  const ToolRun run = RunTool({"eos", "tail", File("log", EosLine({})), "--follow"});
  EXPECT_EQ(run.exit, 0);
  EXPECT_EQ(run.err, "");
  EXPECT_THAT(run.out, ContainsRegex("\nr1 +1 "));
}

TEST_F(EosFollowTest, EndsWhenItsReaderIsGoneThoughNoRowComes) {
  const std::string log = File("log", "");
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const int stdout_before = dup(STDOUT_FILENO);
  dup2(ends[1], STDOUT_FILENO);
  close(ends[1]);
  char head[4096];
  ssize_t head_bytes = 0;
  std::thread reader([&] {
    head_bytes = read(ends[0], head, sizeof(head));
    close(ends[0]);
  });
  const int exit = RunBaton({"eos", "tail", log, "--follow"});
  reader.join();
  dup2(stdout_before, STDOUT_FILENO);
  close(stdout_before);
  EXPECT_EQ(exit, 0);
  EXPECT_GT(head_bytes, 0);
}

TEST_F(EosTailTest, AMissingFileIsNamed) {
  const ToolRun run = RunTool({"eos", "tail", Path("missing")});
  EXPECT_EQ(run.exit, 4);
  EXPECT_THAT(run.err, HasSubstr("cannot read " + Path("missing")));
}

}  // namespace
}  // namespace baton
