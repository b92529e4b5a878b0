// Workers that say nothing: of themselves, while their connections stay, or at all.
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/fakes/tcp_relay.h"
#include "tests/router/router_fixture.h"

namespace baton::testing {
namespace {

using ::testing::ElementsAreArray;

class SilenceTest : public RouterTest {
 protected:
  // Two workers of each role. The first decode worker that comes to `point` says nothing from then
  // on, there or of itself.
  void StartSplit(FakePoint point) {
    const auto first = std::make_shared<std::atomic<bool>>(true);
    for (size_t i = 0; i < 2; ++i) {
      AddPrefill();
      AddDecode([&](FakeWorkerOptions& worker) {
        worker.script = [this, point, i, first](const FakeMoment& moment) {
          if (moment.point != point || !first->exchange(false)) return FakeAction::Go();
          decode_[i]->Mute();
          return FakeAction::Hang();
        };
      });
    }
    StartRouter();
  }

  void ExpectUndisturbed(const Answer& answer, int attempts) {
    ASSERT_TRUE(answer.status.ok()) << answer.status;
    EXPECT_THAT(answer.ids, ElementsAreArray(Expected("fault", 12)));
    EXPECT_EQ(answer.final->attempts(), attempts);
  }

  // Of a worker that is silent from `point` on, whose attempt does not have the outcome `other`, as
  // that of one which is only slow would.
  void ExpectOneBroken(FakePoint point, const std::string& other) {
    options_.deadlines.status_fresh = std::chrono::seconds(1);
    StartSplit(point);
    ExpectUndisturbed(Generate(Request("fault", 12)), 2);
    EXPECT_EQ(Metric("baton_attempts_total{outcome=\"stream_broken\""), 1);
    EXPECT_EQ(Metric("baton_attempts_total{outcome=\"" + other + "\""), 0);
  }
};

// What it waits for goes elsewhere as soon as the last status is too old, long before an answer
// that is only slow would be given up.
TEST_F(SilenceTest, WithoutStatusesAnOverdueReservationIsACountedAttempt) {
  options_.deadlines.reserve = std::chrono::milliseconds(100);
  ExpectOneBroken(FakePoint::kReserved, "full");
}

TEST_F(SilenceTest, WithoutStatusesAnOverdueStartedIsACountedAttempt) {
  options_.deadlines.commit_to_started = std::chrono::milliseconds(100);
  ExpectOneBroken(FakePoint::kStarted, "push_failed");
}

TEST_F(SilenceTest, AWorkerWithoutStatusesGetsNothingNewAndKeepsItsAnswers) {
  options_.deadlines.status_fresh = std::chrono::seconds(1);
  options_.deadlines.avoid = std::chrono::milliseconds(1);
  const auto go_on = std::make_shared<std::atomic<bool>>(false);
  for (int i = 0; i < 2; ++i) {
    AddDecode([&](FakeWorkerOptions& worker) {
      worker.script = [go_on](const FakeMoment& moment) {
        if (moment.point != FakePoint::kToken || moment.index != 5) return FakeAction::Go();
        EXPECT_TRUE(Eventually([&] { return go_on->load(); }));
        return FakeAction::Go();
      };
    });
  }
  StartRouter();
  Answer under_way;
  std::thread client([&] { under_way = Generate(Request("fault", 12)); });
  const auto streams = [&](int i) { return decode_[i]->decode_streams(); };
  EXPECT_TRUE(Eventually([&] { return streams(0) + streams(1) == 1; }));
  const int silent = streams(0) == 1 ? 0 : 1;
  decode_[silent]->Mute();
  EXPECT_TRUE(Eventually([&] { return Metric("baton_router_worker_up") == 1; }));
  for (int i = 0; i < 8; ++i) {
    EXPECT_TRUE(Generate(Request("other", 4)).status.ok());
  }
  EXPECT_EQ(streams(silent), 1);
  EXPECT_EQ(streams(1 - silent), 8);
  *go_on = true;
  client.join();
  ExpectUndisturbed(under_way, 1);
}

// Takes as long as keepalive does: 10 s without a byte, and 5 s for the answer to a ping.
TEST_F(SilenceTest, AnAnswerOverAConnectionThatCarriesNothingGoesOnElsewhere) {
  const auto reached = std::make_shared<std::atomic<bool>>(false);
  FakeWorkerOptions options = WorkerOptions(worker::v1::WORKER_ROLE_DECODE);
  options.script = [reached](const FakeMoment& moment) {
    if (moment.point != FakePoint::kToken || moment.index != 5) return FakeAction::Go();
    *reached = true;
    return FakeAction::Hang();
  };
  FakeWorker behind(&cluster_, options);
  TcpRelay relay(std::stoi(behind.address().substr(behind.address().rfind(':') + 1)));
  options_.decode_workers = {relay.address()};
  AddDecode([](FakeWorkerOptions& worker) { worker.ready = false; });
  StartRouter(/*wait=*/false);

  Answer answer;
  std::thread client([&] {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(2));
    answer = Generate(Request("fault", 12), &context);
  });
  EXPECT_TRUE(Eventually([&] { return reached->load(); }));
  const base::Instant begin = clock_.Now();
  relay.Hold();
  decode_[0]->SetLoad([](worker::v1::WorkerLoad* load) { load->set_ready(true); });
  client.join();
  ExpectUndisturbed(answer, 2);
  EXPECT_EQ(answer.final->decode_worker(), decode_[0]->address());
  // Silence alone is not death: only keepalive gives a connection up.
  EXPECT_GT(clock_.Now() - begin, std::chrono::seconds(9));
  EXPECT_EQ(Metric("baton_attempts_total{outcome=\"worker_died\"") +
                Metric("baton_attempts_total{outcome=\"stream_broken\""),
            1);
}

}  // namespace
}  // namespace baton::testing
