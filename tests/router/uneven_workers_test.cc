// Workers that differ in size or version.
#include <gmock/gmock.h>

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/router/router_fixture.h"

namespace baton::testing {
namespace {

using ::testing::ElementsAreArray;

class UnevenWorkersTest : public RouterTest {
 protected:
  // A decode worker whose pool holds `tokens`.
  FakeWorker* AddDecodeOf(int tokens, std::function<FakeAction(const FakeMoment&)> script = {}) {
    return AddDecode([&](FakeWorkerOptions& worker) {
      worker.blocks_total = tokens / 16;
      worker.max_model_len = 100'000;
      worker.script = script;
    });
  }
};

TEST_F(UnevenWorkersTest, ReplayNeverShortensAnAnswerWithoutMaxTokens) {
  options_.deadlines.no_worker = std::chrono::seconds(20);
  AddDecodeOf(64);
  const auto broken = std::make_shared<std::atomic<bool>>(false);
  AddDecodeOf(256, [broken](const FakeMoment& moment) {
    const bool here = moment.point == FakePoint::kToken && moment.index == 40;
    return here && !broken->exchange(true) ? FakeAction::Die() : FakeAction::Go();
  });
  StartRouter();
  Answer answer;
  std::thread client([&] { answer = Generate(Request("long", 0)); });
  // Only the small worker is left: the request waits for one that can keep what was promised.
  EXPECT_TRUE(Eventually([&] { return *broken && Metric("baton_router_worker_up") == 1; }));
  decode_[1]->Restart();
  client.join();
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  const int prompt = answer.final->usage().prompt_tokens();
  EXPECT_EQ(answer.final->usage().completion_tokens(), 256 - prompt);
  EXPECT_THAT(answer.ids, ElementsAreArray(Expected("long", 256 - prompt)));
  EXPECT_EQ(decode_[0]->decode_streams(), 0);
}

TEST_F(UnevenWorkersTest, RequestsGoToWorkersThatHoldThem) {
  AddDecodeOf(64);
  AddDecodeOf(256);
  AddPrefill([](FakeWorkerOptions& worker) { worker.blocks_total = 2; });
  AddPrefill([](FakeWorkerOptions& worker) { worker.blocks_total = 100; });
  StartRouter();
  const std::string text(60, 'x');
  for (int i = 0; i < 10; ++i) {
    const Answer answer = Generate(Request(text, 100));
    ASSERT_TRUE(answer.status.ok()) << answer.status;
    EXPECT_EQ(answer.final->attempts(), 1);
  }
  EXPECT_EQ(decode_[1]->decode_streams(), 10);
  EXPECT_EQ(prefill_[1]->prefill_streams(), 10);
}

TEST_F(UnevenWorkersTest, WhatOnlyAWorkerThatIsDownCouldTakeWaitsAndIsThenUnavailable) {
  options_.deadlines.no_worker = std::chrono::milliseconds(200);
  AddDecodeOf(64);
  AddDecodeOf(256);
  StartRouter();
  decode_[1]->Kill();
  ASSERT_TRUE(Eventually([&] { return Metric("baton_router_worker_up") == 1; }));
  const Answer answer = Generate(Request("long", 200));
  EXPECT_EQ(answer.status.code(), absl::StatusCode::kUnavailable) << answer.status;
  EXPECT_EQ(ReasonText(answer.status), "NO_WORKER");
  EXPECT_EQ(ReasonText(Generate(Request("never", 5000)).status), "TOO_LONG");
  EXPECT_TRUE(Generate(Request("short", 10)).status.ok());
}

TEST_F(UnevenWorkersTest, WithoutKnownWorkersMinTokensSayHowLargeOneMustBe) {
  AddDecodeOf(64);
  AddDecodeOf(256);
  for (const auto& worker : decode_) worker->Kill();
  StartRouter(/*wait=*/false);
  v1::GenerateRequest request = Request("early", 0);
  request.mutable_spec()->mutable_stop()->set_min_tokens(100);
  Answer answer;
  std::thread client([&] { answer = Generate(request); });
  EXPECT_TRUE(Eventually([&] { return Metric("baton_num_requests_waiting{") == 1; }));
  decode_[0]->Restart();
  EXPECT_TRUE(Eventually([&] { return Metric("baton_router_worker_up") == 1; }));
  decode_[1]->Restart();
  client.join();
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.final->decode_worker(), decode_[1]->address());
  EXPECT_EQ(decode_[0]->decode_streams(), 0);
}

TEST_F(UnevenWorkersTest, LargeRequestThatWaitsDoesNotHoldBackSmallOnes) {
  AddDecodeOf(64);
  AddDecode([](FakeWorkerOptions& worker) {
    worker.blocks_total = 16;
    worker.prefill_places_free = 0;
  });
  StartRouter();
  Answer large;
  std::thread client([&] { large = Generate(Request("large", 200)); });
  ASSERT_TRUE(Eventually([&] { return Metric("baton_num_requests_waiting{") == 1; }));
  EXPECT_GT(Metric("baton_queue_oldest_wait_seconds"), 0);
  EXPECT_TRUE(Generate(Request("small", 10)).status.ok());
  EXPECT_EQ(decode_[1]->decode_streams(), 0);
  decode_[1]->SetLoad([](worker::v1::WorkerLoad* load) { load->set_prefill_places_free(1); });
  client.join();
  EXPECT_EQ(Metric("baton_queue_oldest_wait_seconds"), 0);
  EXPECT_TRUE(large.status.ok()) << large.status;
}

TEST_F(UnevenWorkersTest, DuringARolloutNewRequestsGoToBothVersionsAndReplaysStayWithTheirs) {
  for (const std::string version : {"old", "old", "new", "new"}) {
    AddDecode([&](FakeWorkerOptions& worker) {
      worker.fingerprint = version;
      worker.script = [](const FakeMoment& moment) {
        const bool first_attempt = moment.generation.generated_ids_size() == 0;
        const bool here = moment.point == FakePoint::kToken && moment.index == 5;
        return here && first_attempt ? FakeAction::Fail(absl::UnavailableError("lost"))
                                     : FakeAction::Go();
      };
    });
  }
  StartRouter();
  for (int i = 0; i < 24; ++i) {
    const Answer answer = Generate(Request("rollout", 12));
    ASSERT_TRUE(answer.status.ok()) << answer.status;
    EXPECT_EQ(answer.final->attempts(), 2);
  }
  int replays = 0;
  for (const auto& worker : decode_) {
    EXPECT_GT(worker->decode_streams(), 0) << worker->address();
    for (const auto& generation : worker->seen()) {
      if (generation.generated_ids_size() == 0) continue;
      ++replays;
      EXPECT_EQ(generation.model_fingerprint(),
                worker == decode_[0] || worker == decode_[1] ? "old" : "new");
    }
  }
  EXPECT_EQ(replays, 24);
}

// A crowd of requests at one router, each until its first token and then for as long as the test
// lets it.
class Crowd {
 public:
  explicit Crowd(std::unique_ptr<v1::InferenceService::Stub> stub) : stub_(std::move(stub)) {}
  ~Crowd() {
    for (const auto& call : calls_) call->context.TryCancel();
    for (const auto& call : calls_) ReadAnswer(call->reader.get());
  }
  // Reads the answers to their ends, all of which have to say `ids`; returns how many needed more
  // than one attempt.
  int ExpectAll(const std::vector<int32_t>& ids) {
    int again = 0;
    for (const auto& call : std::exchange(calls_, {})) {
      const Answer rest = ReadAnswer(call->reader.get());
      EXPECT_TRUE(rest.status.ok()) << rest.status;
      call->ids.insert(call->ids.end(), rest.ids.begin(), rest.ids.end());
      EXPECT_THAT(call->ids, ElementsAreArray(ids));
      if (rest.final && rest.final->attempts() > 1) ++again;
    }
    return again;
  }
  void Add(int count, const v1::GenerateRequest& request) {
    const size_t begin = calls_.size();
    for (int i = 0; i < count; ++i) {
      calls_.push_back(std::make_unique<Call>());
      calls_.back()->reader = stub_->Generate(&calls_.back()->context, request);
    }
    for (size_t i = begin; i < calls_.size(); ++i) {
      v1::GenerateResponse message;
      while (!message.has_delta()) ASSERT_TRUE(calls_[i]->reader->Read(&message));
      const auto& ids = message.delta().token_ids();
      calls_[i]->ids.assign(ids.begin(), ids.end());
    }
  }

 private:
  struct Call {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> reader;
    std::vector<int32_t> ids;  // that came so far
  };
  const std::unique_ptr<v1::InferenceService::Stub> stub_;
  std::vector<std::unique_ptr<Call>> calls_;
};

int WorkersUpAt(MetricsRegistry* metrics) {
  const std::string page = metrics->Expose();
  int up = 0;
  for (size_t at = 0; (at = page.find("\nbaton_router_worker_up{", at)) != std::string::npos;
       ++at) {
    up += page[page.find('\n', at + 1) - 1] == '1' ? 1 : 0;
  }
  return up;
}

// It has to take what the other old one had; what is new goes where less runs, and nothing is lost.
TEST_F(UnevenWorkersTest, DuringARolloutNewRequestsOfTwoRoutersDoNotPileUpAtTheLastOldWorker) {
  std::promise<void> go_on;  // a test that fails lets go by breaking it
  const std::shared_future<void> may_go_on = go_on.get_future().share();
  for (const std::string version : {"old", "old", "new", "new"}) {
    AddDecode([&](FakeWorkerOptions& worker) {
      worker.fingerprint = version;
      worker.script = [may_go_on](const FakeMoment& moment) {
        if (moment.point == FakePoint::kToken && moment.index >= 5) may_go_on.wait();
        return FakeAction::Go();
      };
    });
  }
  StartRouter();
  MetricsRegistry metrics(
      {.role = MetricRole::kRouter, .model_name = "tiny", .max_model_len = kContext});
  const std::unique_ptr<Router> other = MakeRouter(&metrics, nullptr);
  ASSERT_TRUE(Eventually([&] { return WorkersUpAt(&metrics) == 4; }));
  Crowd one(Stub(*router_));
  Crowd two(Stub(*other));
  for (Crowd* crowd : {&one, &two}) crowd->Add(24, Request("rollout", 200));

  const auto opened = [&](size_t worker) { return decode_[worker]->decode_streams(); };
  const int moved = opened(0);
  const int of_last = opened(1);
  EXPECT_GT(moved, 6);
  decode_[0]->Kill();
  ASSERT_TRUE(Eventually([&] { return opened(1) == of_last + moved; }));
  for (Crowd* crowd : {&one, &two}) crowd->Add(12, Request("rollout", 200));
  EXPECT_EQ(opened(0) + opened(1) + opened(2) + opened(3), 48 + moved + 24);
  // Hardly any: with them, the new ones have about as much as it has without. By chance it were 8.
  EXPECT_LE(opened(1) - of_last - moved, 6);
  go_on.set_value();
  int again = 0;
  for (Crowd* crowd : {&one, &two}) again += crowd->ExpectAll(Expected("rollout", 200));
  EXPECT_EQ(again, moved);
}

}  // namespace
}  // namespace baton::testing
