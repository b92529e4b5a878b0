// How long a request waited, as its answer and the metrics tell.
#include <atomic>
#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "common/eos/eos_log.h"
#include "nlohmann/json.hpp"
#include "tests/fakes/scratch_folder.h"
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
  void ExpectOneSample(double queue_ms) {
    for (const std::string name :
         {"baton_request_queue_time_seconds", "baton_tenant_queue_time_seconds"}) {
      EXPECT_NEAR(Metric(name + "_sum"), queue_ms / 1e3, 1e-6) << name;
      EXPECT_EQ(Metric(name + "_count"), 1) << name;
    }
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
  ExpectOneSample(timings.queue_ms());
}

// Prefill workers kept the prompt in their lines, and then had no place for it. Each line counts
// once, also where none was left to ask and the attempt ended.
class LinesThatWereLeftTest : public QueueAtPrefillTest,
                              public ::testing::WithParamInterface<int> {};

TEST_P(LinesThatWereLeftTest, Count) {
  const auto refusals = std::make_shared<std::atomic<int>>(0);
  for (int i = 0; i < 2; ++i) {
    AddPrefill([&](FakeWorkerOptions& worker) {
      worker.script = [this, refusals](const FakeMoment& moment) {
        if (moment.point != FakePoint::kPrefillOpen || ++*refusals > GetParam()) {
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
  EXPECT_GT(*refusals, GetParam());
  EXPECT_EQ(answer.final->attempts(), 1);
  const v1::Timings& timings = answer.final->timings();
  EXPECT_GE(timings.queue_ms(), GetParam() * base::Milliseconds(kWait));
  EXPECT_LE(timings.queue_ms(), timings.ttft_ms());
  ExpectOneSample(timings.queue_ms());
}

INSTANTIATE_TEST_SUITE_P(Refusals, LinesThatWereLeftTest, ::testing::Values(1, 2));

// The others are its own affair, as they are for the time to its first token.
TEST_F(QueueAtPrefillTest, ARequestForSeveralAnswersHasTheWaitOfItsFirst) {
  AddDecode();
  StartRouter();
  v1::GenerateRequest request = Request("wait", 3);
  request.mutable_spec()->mutable_sampling()->set_n(3);
  const Answer answer = Generate(request);
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  for (const v1::GenerateResponse& message : answer.messages) {
    if (message.final().index() == 0 && message.has_final()) {
      ExpectOneSample(message.final().timings().queue_ms());
    }
  }
}

// Requests that end while they wait: for a worker with a place, or for blocks.
class DeathInQueueTest : public QueueAtPrefillTest {
 protected:
  DeathInQueueTest() {
    auto log = EosLog::Open({.path = folder_ / "eos.jsonl", .meta_json = "{}\n"});
    EXPECT_TRUE(log.ok()) << log.status();
    eos_log_ = *std::move(log);
  }
  // What writes ends before the folder that it writes to.
  ~DeathInQueueTest() override {
    stub_.reset();
    router_.reset();
    eos_log_.reset();
  }
  void StartWithoutPlaces() {
    AddDecode([](FakeWorkerOptions& worker) { worker.prefill_places_free = 0; });
    StartRouter();
  }
  // It waited nearly all its life, and the log and the metrics say so.
  void ExpectItWaited() {
    ASSERT_TRUE(Eventually([&] { return router_->in_flight() == 0; }));
    const double sum_s = Metric("baton_request_queue_time_seconds_sum");
    EXPECT_GE(sum_s, base::Seconds(kWait));
    ExpectOneSample(1e3 * sum_s);
    stub_.reset();
    router_.reset();
    std::ifstream file(folder_ / "eos.jsonl.requests.jsonl");
    std::string line;
    ASSERT_TRUE(std::getline(file, line));
    const auto timings = nlohmann::json::parse(line)["timings_ms"];
    EXPECT_NEAR(timings["queue"].get<double>(), 1e3 * sum_s, 1e-3);
    EXPECT_LE(timings["queue"].get<double>(), timings["total"].get<double>());
  }

  const ScratchFolder folder_;
};

TEST_F(DeathInQueueTest, ADeadlineThatPassesInTheQueueEndsAWait) {
  options_.deadlines.request = kWait;
  StartWithoutPlaces();
  EXPECT_EQ(Generate(Request("wait", 3)).status.code(), absl::StatusCode::kDeadlineExceeded);
  ExpectItWaited();
}

TEST_F(DeathInQueueTest, AClientThatLeavesTheQueueHasWaited) {
  StartWithoutPlaces();
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, Request("wait", 3));
  ASSERT_TRUE(Eventually([&] { return Metric("baton_num_requests_waiting{") == 1; }));
  StayInTheQueue();
  context.TryCancel();
  EXPECT_EQ(ReadAnswer(reader.get()).status.code(), absl::StatusCode::kCancelled);
  ExpectItWaited();
}

TEST_F(DeathInQueueTest, NoWorkerEndsAWait) {
  options_.deadlines.no_worker = 2 * kWait;  // counted from when the last one went
  StartWithoutPlaces();
  decode_[0]->Kill();
  ASSERT_TRUE(Eventually([&] { return Metric("baton_router_worker_up") == 0; }));
  EXPECT_EQ(ReasonText(Generate(Request("wait", 3)).status), "NO_WORKER");
  ASSERT_TRUE(Eventually([&] { return router_->in_flight() == 0; }));
  EXPECT_EQ(Metric("baton_request_queue_time_seconds_count"), 1);
}

TEST_F(DeathInQueueTest, ADeadlineThatPassesBeforeBlocksAreGrantedEndsAWait) {
  options_.deadlines.request = kWait;
  AddDecode([](FakeWorkerOptions& worker) {
    worker.script = [](const FakeMoment& moment) {
      return moment.point == FakePoint::kReserved ? FakeAction::Hang() : FakeAction::Go();
    };
  });
  AddPrefill();
  StartRouter();
  EXPECT_EQ(Generate(Request("wait", 3)).status.code(), absl::StatusCode::kDeadlineExceeded);
  ExpectItWaited();
}

TEST_F(DeathInQueueTest, WhatTheQueueRefusesHasNoWait) {
  options_.max_num_queued_reqs = 1;
  StartWithoutPlaces();
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, Request("wait", 3));
  ASSERT_TRUE(Eventually([&] { return Metric("baton_num_requests_waiting{") == 1; }));
  EXPECT_EQ(ReasonText(Generate(Request("wait", 3)).status), "QUEUE_FULL");
  EXPECT_EQ(Metric("baton_request_queue_time_seconds_count"), 0);
  context.TryCancel();
  ReadAnswer(reader.get());
}

INSTANTIATE_TEST_SUITE_P(Attempts, QueueTimeTest,
                         ::testing::Values(Reason::kFull, Reason::kPushFailed),
                         [](const auto& test) { return std::string(ReasonName(test.param)); });

}  // namespace
}  // namespace baton::testing
