#include "tools/serve/supervisor.h"

#include <signal.h>
#include <unistd.h>

#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/scratch_folder.h"

namespace baton {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kReady[] =
    R"(echo '{"ready":true,"role":"decode","pid":1,"grpc":"h:1","admin":"h:2"}'; )";

class SupervisorTest : public ::testing::Test {
 protected:
  SupervisorTest()
      : supervisor_({.drain_timeout = seconds(10),
                     .start_timeout = seconds(60),
                     .first_backoff = milliseconds(20),
                     .max_backoff = milliseconds(40)},
                    &clock_, &log_) {}

  static ServiceSpec Shell(const std::string& script) {
    return {
        .role = "decode", .name = "decode-0", .program = "/bin/sh", .arguments = {"-c", script}};
  }
  // What is logged by this process and its services while `act` runs.
  std::string LogOf(const std::function<void()>& act) {
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    act();
    EXPECT_TRUE(log_.Flush(seconds(30)));
    return ::testing::internal::GetCapturedStdout() + ::testing::internal::GetCapturedStderr();
  }
  void Drain() { supervisor_.Drain({"decode"}); }
  base::Instant Soon() const { return clock_.Now() + seconds(30); }

  const base::SteadyClock clock_;
  LogOutput log_{STDERR_FILENO};
  Supervisor supervisor_;
};

TEST_F(SupervisorTest, WaitsForReadyLinesAndForwardsLogs) {
  const std::string log = LogOf([&] {
    const auto failure = supervisor_.StartAll(
        {Shell(std::string("echo starting >&2; echo noise; ") + kReady + "exec sleep 100"),
         Shell(std::string(kReady) + "exec sleep 100")});
    EXPECT_FALSE(failure.has_value());
    Drain();
  });
  EXPECT_THAT(log, HasSubstr("[decode-0] starting\n"));
}

TEST_F(SupervisorTest, ReportsTheExitCodeOfAServiceThatCannotStart) {
  const auto failure =
      supervisor_.StartAll({Shell(std::string(kReady) + "exec sleep 100"), Shell("exit 3")});
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->code, ExitCode::kModel);
  Drain();
}

TEST_F(SupervisorTest, ACrashAtStartIsAResourceFailure) {
  const auto failure = supervisor_.StartAll({Shell("kill -9 $$")});
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->code, ExitCode::kResources);
  EXPECT_THAT(failure->why, HasSubstr("137"));
}

TEST_F(SupervisorTest, SaysWhatAFileThatWasTruncatedDoes) {
  const auto failure = supervisor_.StartAll({Shell("kill -BUS $$")});
  ASSERT_TRUE(failure.has_value());
  EXPECT_THAT(failure->why, HasSubstr("135 (signal 7, Bus error: a file"));
  EXPECT_THAT(failure->why, HasSubstr("truncated"));
}

TEST_F(SupervisorTest, NamesWhatDidNotGetReadyInTime) {
  Supervisor supervisor({.start_timeout = base::Duration::zero()}, &clock_, &log_);
  ServiceSpec slow = Shell("exec sleep 100");
  slow.name = "prefill-7";
  const auto failure = supervisor.StartAll({slow});
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->code, ExitCode::kResources);
  EXPECT_EQ(failure->what, "prefill-7 did not get ready");
}

TEST_F(SupervisorTest, AMissingBinarySaysWhereToLook) {
  ServiceSpec spec = Shell("");
  spec.program = "/nowhere/baton-decode";
  const auto failure = supervisor_.StartAll({spec});
  ASSERT_TRUE(failure.has_value());
  EXPECT_THAT(failure->next, HasSubstr("BATON_BIN_DIR"));
}

TEST_F(SupervisorTest, RestartsWhatDies) {
  ASSERT_FALSE(supervisor_.StartAll({Shell(std::string(kReady) + "exec sleep 100")}).has_value());
  const pid_t first = supervisor_.pids()[0];
  kill(first, SIGKILL);
  supervisor_.RunUntil(
      [&] { return supervisor_.pids()[0] != first && supervisor_.ready_lines()[0].grpc == "h:1"; },
      Soon());
  EXPECT_NE(supervisor_.pids()[0], first);
  EXPECT_GT(supervisor_.pids()[0], 0);
  Drain();
}

TEST_F(SupervisorTest, SaysWhatToDoForAServiceWhosePortIsTaken) {
  const ScratchFolder folder;
  const std::string once = "mkdir " + (folder / "once") + " 2>/dev/null || exit 5; ";
  ASSERT_FALSE(supervisor_.StartAll({Shell(once + kReady + "exec sleep 100")}).has_value());
  kill(supervisor_.pids()[0], SIGKILL);
  const std::string log = LogOf([&] {
    int polls = 0;
    supervisor_.RunUntil([&] { return ++polls > 20 && supervisor_.pids()[0] < 0; }, Soon());
    Drain();
  });
  EXPECT_THAT(log, HasSubstr("decode-0 ended with exit code 5; it starts again in"));
  EXPECT_THAT(log, HasSubstr("`ss -ltnp` shows who has the port"));
}

TEST_F(SupervisorTest, BacksOffWhileAServiceKeepsDying) {
  const ScratchFolder folder;
  const std::string file = folder / "deaths";
  // The first life waits to be killed; all later ones get ready and die at once.
  ASSERT_FALSE(supervisor_
                   .StartAll({Shell("echo x >> " + file + "; mkdir " + (folder / "once") +
                                    " 2>/dev/null && first=1; " + kReady +
                                    "if [ $first ]; then exec sleep 100; fi")})
                   .has_value());
  kill(supervisor_.pids()[0], SIGKILL);
  const base::Instant begin = clock_.Now();
  const auto lives = [&] {
    std::ifstream stream(file);
    int count = 0;
    for (std::string line; std::getline(stream, line);) ++count;
    return count;
  };
  supervisor_.RunUntil([&] { return lives() >= 4; }, Soon());
  EXPECT_GE(lives(), 4);
  EXPECT_GE(clock_.Now() - begin, milliseconds(20 + 40 + 40));
  Drain();
}

TEST_F(SupervisorTest, DrainSendsSigtermAndWaits) {
  ASSERT_FALSE(supervisor_
                   .StartAll({Shell("trap 'echo bye >&2; exit 0' TERM; " + std::string(kReady) +
                                    "while :; do sleep 0.01; done")})
                   .has_value());
  EXPECT_THAT(LogOf([&] { Drain(); }), HasSubstr("[decode-0] bye"));
  EXPECT_EQ(supervisor_.pids()[0], -1);
}

TEST_F(SupervisorTest, TellsOfAServiceThatDoesNotEndAsItWasTold) {
  ASSERT_FALSE(supervisor_
                   .StartAll({Shell("trap 'exit 9' TERM; " + std::string(kReady) +
                                    "while :; do sleep 0.01; done")})
                   .has_value());
  EXPECT_THAT(LogOf([&] { Drain(); }), HasSubstr("decode-0 ended with exit code 9"));
}

TEST_F(SupervisorTest, SaysNothingOfAServiceThatEndsAsItWasTold) {
  ASSERT_FALSE(supervisor_.StartAll({Shell(std::string(kReady) + "exec sleep 100")}).has_value());
  EXPECT_THAT(LogOf([&] { Drain(); }), Not(HasSubstr("ended with")));
}

TEST_F(SupervisorTest, TellsOfAServiceThatEndsBeforeAllHaveStarted) {
  EXPECT_THAT(LogOf([&] { EXPECT_TRUE(supervisor_.StartAll({Shell("exit 3")}).has_value()); }),
              HasSubstr("decode-0 ended with exit code 3"));
}

// Answers that a router lets go on need workers.
TEST_F(SupervisorTest, WhatDoesNotDrainComesBackMeanwhile) {
  const ScratchFolder folder;
  const std::string once = folder / "once", back = folder / "back";
  ServiceSpec router =
      Shell("trap 'while [ ! -e " + back + " ]; do sleep 0.01; done; exit 0' TERM; " + kReady +
            "while :; do sleep 0.01; done");
  router.role = "router";
  router.name = "router";
  const ServiceSpec worker =
      Shell("mkdir " + once + " 2>/dev/null || touch " + back + "; " + kReady + "exec sleep 100");
  ASSERT_FALSE(supervisor_.StartAll({router, worker}).has_value());
  kill(supervisor_.pids()[1], SIGKILL);
  const std::string log = LogOf([&] { supervisor_.Drain({"router"}); });
  EXPECT_THAT(log, HasSubstr("decode-0 ended with exit code 137 (signal 9, Killed); it starts"));
  EXPECT_THAT(log, Not(HasSubstr("router is killed")));
  EXPECT_EQ(supervisor_.pids()[0], -1);
  EXPECT_GT(supervisor_.pids()[1], 0);
  Drain();
  EXPECT_EQ(supervisor_.pids()[1], -1);
}

// It may be stuck where it heeds no signal, as in a driver that does not come up.
TEST_F(SupervisorTest, DrainDoesNotWaitForWhatIsNotReady) {
  ASSERT_TRUE(
      supervisor_.StartAll({Shell("trap '' TERM; while :; do sleep 0.01; done"), Shell("exit 4")})
          .has_value());
  const base::Instant begin = clock_.Now();
  Drain();
  EXPECT_LT(clock_.Now() - begin, seconds(10));
  EXPECT_EQ(supervisor_.pids()[0], -1);
}

TEST_F(SupervisorTest, ASignalAsksToStop) {
  ASSERT_FALSE(supervisor_.StartAll({Shell(std::string(kReady) + "exec sleep 100")}).has_value());
  // To this thread: another one, of gRPC say, would not have it blocked.
  raise(SIGTERM);
  supervisor_.RunUntil([] { return false; }, Soon());
  EXPECT_TRUE(supervisor_.stop_requested());
  Drain();
}

// Time as it goes, and more of it when told so.
class ClockAhead final : public base::Clock {
 public:
  base::Instant Now() const override { return steady_.Now() + ahead_; }
  double UnixNow() const override { return steady_.UnixNow() + base::Seconds(ahead_); }
  void Advance(base::Duration d) { ahead_ += d; }

 private:
  const base::SteadyClock steady_;
  base::Duration ahead_{};
};

class SecondSignalTest : public SupervisorTest {
 protected:
  SecondSignalTest() : second_({.drain_timeout = seconds(10)}, &ahead_, &log_) {}

  // Starts what does `act` at a SIGTERM and drains it, with a signal of each kind to us, one
  // `apart` behind the other. Returns what is logged.
  std::string DrainWithTwoSignals(const std::string& act, base::Duration apart) {
    EXPECT_FALSE(second_
                     .StartAll({Shell("trap '" + act + "' TERM; " + std::string(kReady) +
                                      "while :; do sleep 0.01; done")})
                     .has_value());
    raise(SIGTERM);
    second_.RunUntil([] { return false; }, ahead_.Now() + seconds(30));
    ahead_.Advance(apart);
    raise(SIGINT);
    const std::string log = LogOf([&] { second_.Drain({"decode"}); });
    EXPECT_EQ(second_.pids()[0], -1);
    return log;
  }

  ClockAhead ahead_;
  Supervisor second_;
};

TEST_F(SecondSignalTest, KillsAtOnce) {
  const base::Instant begin = clock_.Now();
  EXPECT_THAT(DrainWithTwoSignals("", seconds(1)),
              HasSubstr("decode-0 is killed: a second signal came"));
  EXPECT_LT(clock_.Now() - begin, seconds(10));
}

TEST_F(SecondSignalTest, InTheSameMomentIsTheFirstOnceMore) {
  EXPECT_THAT(DrainWithTwoSignals("sleep 0.2; exit 0", base::Duration::zero()),
              Not(HasSubstr("is killed")));
}

}  // namespace
}  // namespace baton
