#include "common/base/stoppable_start.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "gtest/gtest.h"

namespace baton::base {
namespace {

using std::chrono::seconds;
using ::testing::ExitedWithCode;

// Each statement runs in a process of its own, whose signals are those of nobody else.
class StoppableStartTest : public ::testing::TestWithParam<int> {
 protected:
  StoppableStartTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

void LoadUntilTold(int signal) {
  const StopSignals signals;
  StoppableStart start(&signals);
  kill(getpid(), signal);
  std::this_thread::sleep_for(seconds(60));  // a load that looks for nothing
  _exit(7);
}

void ServeAndReadTheSignal(int signal) {
  const StopSignals signals;
  StoppableStart start(&signals);
  start.Over();
  kill(getpid(), signal);
  _exit(signals.Arrived(seconds(60)) ? 8 : 7);
}

TEST_P(StoppableStartTest, ASignalWhileItLastsEndsTheProcess) {
  EXPECT_EXIT(LoadUntilTold(GetParam()), ExitedWithCode(0), "");
}

TEST_P(StoppableStartTest, ASignalAfterItIsLeftToWhoeverDrains) {
  EXPECT_EXIT(ServeAndReadTheSignal(GetParam()), ExitedWithCode(8), "");
}

INSTANTIATE_TEST_SUITE_P(Signals, StoppableStartTest, ::testing::Values(SIGTERM, SIGINT));

}  // namespace
}  // namespace baton::base
