// How often a router lets its workers speak.
#include "router/workers/status_interval.h"

#include <gtest/gtest.h>

#include "tests/fakes/status_fleet.h"
#include "tests/router/router_fixture.h"

namespace baton::testing {
namespace {

using std::chrono::milliseconds;

TEST(StatusIntervalTest, AllWorkersTogetherSendAtMostTwoThousandStatusesASecond) {
  const base::Duration fresh = std::chrono::seconds(2);
  EXPECT_EQ(StatusInterval(0, fresh), milliseconds(0));
  EXPECT_EQ(StatusInterval(100, fresh), milliseconds(0));
  EXPECT_EQ(StatusInterval(101, fresh), milliseconds(100));
  EXPECT_EQ(StatusInterval(200, fresh), milliseconds(100));
  EXPECT_EQ(StatusInterval(201, fresh), milliseconds(150));
  EXPECT_EQ(StatusInterval(1000, fresh), milliseconds(500));
  for (size_t workers = 101; workers <= 1000; ++workers) {
    EXPECT_LE(workers * milliseconds(1000), 2000 * StatusInterval(workers, fresh));
  }
}

TEST(StatusIntervalTest, SilenceOfAWorkerIsNotMistakenForAnInterval) {
  EXPECT_EQ(StatusInterval(100'000, std::chrono::seconds(2)), milliseconds(500));
  EXPECT_EQ(StatusInterval(100'000, milliseconds(800)), milliseconds(200));
}

class ManyWorkersTest : public RouterTest {
 protected:
  // A router in front of `fleet`.
  void StartRouterOf(const StatusFleet& fleet) {
    options_.decode_workers = fleet.addresses();
    StartRouter(/*wait=*/false);
  }
};

TEST_F(ManyWorkersTest, AllOfThemHearHowSeldomTheyShouldSpeak) {
  StatusFleet fleet(
      {.workers = 101, .layout = WorkerOptions(worker::v1::WORKER_ROLE_DECODE).layout});
  StartRouterOf(fleet);
  EXPECT_TRUE(Eventually([&] { return fleet.StreamsThatWant(milliseconds(100)) == 101; }));
}

TEST_F(ManyWorkersTest, FewSpeakAsOftenAsTheyLike) {
  StatusFleet fleet(
      {.workers = 20, .layout = WorkerOptions(worker::v1::WORKER_ROLE_DECODE).layout});
  StartRouterOf(fleet);
  EXPECT_TRUE(Eventually([&] { return fleet.streams() == 20 && fleet.statuses() > 100; }));
  EXPECT_EQ(fleet.StreamsThatWant(milliseconds(1)), 0);
}

}  // namespace
}  // namespace baton::testing
