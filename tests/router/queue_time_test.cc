// How long a request waited, as its answer and the metrics tell.
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "tests/router/router_fixture.h"

namespace baton::testing {
namespace {

constexpr base::Duration kWait = std::chrono::milliseconds(150);

class QueueAtPrefillTest : public RouterTest {
 protected:
  void StayInTheQueue() {
    const base::Instant until = clock_.Now() + kWait;
    EXPECT_TRUE(Eventually([&] { return clock_.Now() >= until; }));
  }
};

class QueueTimeTest : public QueueAtPrefillTest, public ::testing::WithParamInterface<Reason> {};

// The waits before the first attempt and behind it, whether it counts as one or not; and in the
// line of a worker that then has no place.
TEST_P(QueueTimeTest, AllWaitsOfARequestAddUp) {
  const auto failed = std::make_shared<std::atomic<bool>>(false);
  AddDecode([&](FakeWorkerOptions& worker) {
    worker.prefill_places_free = 0;
    worker.script = [this, failed](const FakeMoment& moment) {
      if (moment.point != FakePoint::kDecodeOpen || failed->exchange(true)) return FakeAction::Go();
      StayInTheQueue();
      decode_[0]->SetLoad([](worker::v1::WorkerLoad* load) { load->set_ready(false); });
      EXPECT_TRUE(Eventually([&] { return Metric("baton_router_worker_up") == 0; }));
      return FakeAction::Fail(
          MakeError(absl::StatusCode::kResourceExhausted, {.reason = GetParam()}, "scripted"));
    };
  });
  StartRouter();
  Answer answer;
  std::thread client([&] { answer = Generate(Request("wait", 3)); });
  EXPECT_TRUE(Eventually([&] { return Metric("baton_num_requests_waiting{") == 1; }));
  StayInTheQueue();
  decode_[0]->SetLoad([](worker::v1::WorkerLoad* load) { load->set_prefill_places_free(8); });
  EXPECT_TRUE(Eventually([&] { return Metric("baton_attempts_total") == 1; }));
  StayInTheQueue();
  decode_[0]->SetLoad([](worker::v1::WorkerLoad* load) { load->set_ready(true); });
  client.join();

  ASSERT_TRUE(answer.status.ok()) << answer.status;
  const v1::Timings& timings = answer.final->timings();
  const int waits = GetParam() == Reason::kFull ? 3 : 2;
  EXPECT_GE(timings.queue_ms(), waits * base::Milliseconds(kWait));
  EXPECT_LE(timings.queue_ms(), timings.ttft_ms());
  for (const std::string name :
       {"baton_request_queue_time_seconds", "baton_tenant_queue_time_seconds"}) {
    EXPECT_NEAR(Metric(name + "_sum"), timings.queue_ms() / 1e3, 1e-6) << name;
    EXPECT_EQ(Metric(name + "_count"), 2) << name;
  }
}

// A prefill worker kept the prompt in its line, and then had no place for it.
TEST_F(QueueAtPrefillTest, ALineThatWasLeftForAnotherPrefillWorkerCounts) {
  const auto failed = std::make_shared<std::atomic<bool>>(false);
  for (int i = 0; i < 2; ++i) {
    AddPrefill([&](FakeWorkerOptions& worker) {
      worker.script = [this, failed](const FakeMoment& moment) {
        if (moment.point != FakePoint::kPrefillOpen || failed->exchange(true)) {
          return FakeAction::Go();
        }
        StayInTheQueue();
        return FakeAction::Fail(
            MakeError(absl::StatusCode::kResourceExhausted, {.reason = Reason::kFull}, "scripted"));
      };
    });
  }
  AddDecode();
  StartRouter();
  const Answer answer = Generate(Request("wait", 3));
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_TRUE(*failed);
  EXPECT_EQ(answer.final->attempts(), 1);
  EXPECT_GE(answer.final->timings().queue_ms(), base::Milliseconds(kWait));
}

INSTANTIATE_TEST_SUITE_P(Attempts, QueueTimeTest,
                         ::testing::Values(Reason::kFull, Reason::kPushFailed),
                         [](const auto& test) { return std::string(ReasonName(test.param)); });

}  // namespace
}  // namespace baton::testing
