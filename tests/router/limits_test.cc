// What bounds the router: its queue, its patience, and slow clients.
#include <gmock/gmock.h>

#include <thread>

#include "common/rpc/status_map.h"
#include "tests/router/router_fixture.h"
#include "tests/router/small_window.h"

namespace baton::testing {
namespace {

using ::testing::ElementsAreArray;
using LimitsTest = RouterTest;

// Every token from index 1 on hangs until the test says otherwise.
FakeAction HangAfterFirst(const FakeMoment& moment) {
  return moment.point == FakePoint::kToken ? FakeAction::Hang() : FakeAction::Go();
}

class OpenCall {
 public:
  OpenCall(v1::InferenceService::Stub* stub, const v1::GenerateRequest& request)
      : reader_(stub->Generate(&context_, request)) {}
  ~OpenCall() {
    context_.TryCancel();
    ReadAnswer(reader_.get());
  }
  grpc::ClientReader<v1::GenerateResponse>* reader() { return reader_.get(); }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> reader_;
};

TEST_F(LimitsTest, FullQueueRefusesWithRetryInfoAndServesWhenThereIsRoom) {
  options_.max_num_queued_reqs = 2;
  AddDecode([](FakeWorkerOptions& worker) { worker.prefill_places_free = 0; });
  StartRouter();
  std::vector<Answer> waiting(2);
  std::vector<std::thread> clients;
  for (Answer& answer : waiting) {
    clients.emplace_back([&] { answer = Generate(Request("wait", 3)); });
  }
  ASSERT_TRUE(Eventually([&] { return Metric("baton_num_requests_in_stage{engine") == 2; }));
  const Answer refused = Generate(Request("more", 3));
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonText(refused.status), "QUEUE_FULL");
  EXPECT_TRUE(DetailOf(refused.status).retry_after.has_value());
  EXPECT_EQ(Metric("baton_queue_rejections_total{engine"), 1);
  decode_[0]->SetLoad([](worker::v1::WorkerLoad* load) { load->set_prefill_places_free(8); });
  for (std::thread& client : clients) client.join();
  for (const Answer& answer : waiting) {
    EXPECT_TRUE(answer.status.ok()) << answer.status;
    EXPECT_THAT(answer.ids, ElementsAreArray(Expected("wait", 3)));
  }
}

TEST_F(LimitsTest, AttemptOpensOnlyWhenThePrefillWorkerHasAFreePlace) {
  auto prefill = WorkerOptions(worker::v1::WORKER_ROLE_PREFILL);
  prefill.prefill_places_free = 1;
  prefill.script = [](const FakeMoment& moment) {
    return moment.point == FakePoint::kFirstToken ? FakeAction::Hang() : FakeAction::Go();
  };
  AddPrefill(prefill);
  AddDecode();
  StartRouter();
  OpenCall first(stub_.get(), Request("first", 3));
  ASSERT_TRUE(Eventually([&] { return prefill_[0]->prefill_streams() == 1; }));
  prefill_[0]->SetLoad([](worker::v1::WorkerLoad* load) { load->set_prefill_places_free(0); });
  OpenCall second(stub_.get(), Request("second", 3));
  ASSERT_TRUE(Eventually([&] { return Metric("baton_router_picks_total{engine") > 5; }));
  EXPECT_EQ(decode_[0]->decode_streams(), 1);
  prefill_[0]->SetLoad([](worker::v1::WorkerLoad* load) { load->set_prefill_places_free(1); });
  EXPECT_TRUE(Eventually([&] { return prefill_[0]->prefill_streams() == 2; }));
}

TEST_F(LimitsTest, WithoutHealthyWorkerRequestsAreRefusedAfterAWhile) {
  options_.deadlines.no_worker = std::chrono::milliseconds(200);
  AddDecode([](FakeWorkerOptions& worker) { worker.ready = false; });
  StartRouter(/*wait=*/false);
  const Answer answer = Generate(Request("nobody", 3));
  EXPECT_EQ(answer.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonText(answer.status), "NO_WORKER");
  EXPECT_TRUE(DetailOf(answer.status).retry_after.has_value());
  EXPECT_FALSE(router_->ready().ok());
}

TEST_F(LimitsTest, WorkerThatComesBackInTimeServesTheQueue) {
  AddDecode([](FakeWorkerOptions& worker) { worker.ready = false; });
  StartRouter(/*wait=*/false);
  Answer answer;
  std::thread client([&] { answer = Generate(Request("later", 3)); });
  ASSERT_TRUE(Eventually([&] { return Metric("baton_num_requests_in_stage{engine") == 1; }));
  decode_[0]->SetLoad([](worker::v1::WorkerLoad* load) { load->set_ready(true); });
  client.join();
  EXPECT_TRUE(answer.status.ok()) << answer.status;
}

TEST_F(LimitsTest, WorkersOfAnotherModelOrProtocolGetNothing) {
  options_.deadlines.no_worker = std::chrono::milliseconds(200);
  AddDecode([](FakeWorkerOptions& worker) { worker.layout.set_layers(99); });
  AddDecode([](FakeWorkerOptions& worker) { worker.protocol_major = 2; });
  StartRouter(/*wait=*/false);
  EXPECT_EQ(ReasonText(Generate(Request("nobody", 3)).status), "NO_WORKER");
  EXPECT_EQ(decode_[0]->decode_streams() + decode_[1]->decode_streams(), 0);
}

TEST_F(LimitsTest, WorkersOfAnotherRoleOrTextGetNothing) {
  AddDecode([](FakeWorkerOptions& worker) { worker.role = worker::v1::WORKER_ROLE_PREFILL; });
  AddDecode([](FakeWorkerOptions& worker) { worker.text_fingerprint = "permuted"; });
  AddDecode();
  AddPrefill([](FakeWorkerOptions& worker) { worker.role = worker::v1::WORKER_ROLE_DECODE; });
  StartRouter(/*wait=*/false);
  for (int i = 0; i < 8; ++i) {
    const Answer answer = Generate(Request("served", 3));
    ASSERT_TRUE(answer.status.ok()) << answer.status;
    EXPECT_EQ(answer.final->attempts(), 1);
  }
  EXPECT_EQ(decode_[0]->decode_streams() + decode_[1]->decode_streams(), 0);
  EXPECT_EQ(prefill_[0]->prefill_streams(), 0);
  EXPECT_EQ(decode_[2]->decode_streams(), 8);
}

TEST_F(LimitsTest, WorkersOfDifferentFingerprintsAreNeverPaired) {
  AddDecode();
  AddPrefill([](FakeWorkerOptions& worker) { worker.fingerprint = "another"; });
  StartRouter();
  const Answer answer = Generate(Request("alone", 3));
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(prefill_[0]->prefill_streams(), 0);
}

// Limits with a worker whose answers are long, so that a client that is slow to read falls behind.
class SlowClientTest : public LimitsTest {
 protected:
  v1::GenerateRequest StartWith(int max_tokens) {
    AddDecode([&](FakeWorkerOptions& worker) {
      worker.model = [](const std::vector<int32_t>&) { return int32_t{'a'}; };
      worker.max_model_len = 1 << 24;
      worker.blocks_total = 1 << 20;
      worker.foresees = true;
    });
    StartRouter();
    v1::GenerateRequest request = Request("much", max_tokens);
    request.mutable_spec()->mutable_eos()->set_steps(true);
    return request;
  }
  // Of which the client gets nothing before its end.
  static v1::GenerateRequest Ranked(v1::GenerateRequest request) {
    request.mutable_spec()->mutable_sampling()->set_temperature(1);
    request.mutable_spec()->mutable_sampling()->set_best_of(2);
    request.mutable_spec()->mutable_output()->set_logprobs(20);
    return request;
  }
  double Bytes() {
    return Metric("baton_request_bytes_inflight{engine=\"0\",model_name=\"tiny\",role=\"router\"");
  }
  bool OneEndedSlow() {
    return Eventually([&] {
      return Metric(
                 "baton_request_errors_total{engine=\"0\",model_name=\"tiny\",role=\"router\","
                 "code=\"RESOURCE_EXHAUSTED\",reason=\"SLOW_CLIENT\"") == 1;
    });
  }
};

TEST_F(SlowClientTest, ClientThatReadsNothingEndsSlowAndDisturbsNobody) {
  options_.client_buffer = 8 << 10;
  const v1::GenerateRequest request = StartWith(400'000);
  grpc::ClientContext context;
  const auto slow = SmallWindowStub(*router_);
  const auto reader = slow->Generate(&context, request);
  ASSERT_TRUE(OneEndedSlow());
  EXPECT_TRUE(Eventually([&] { return router_->in_flight() == 0; }));
  EXPECT_TRUE(Eventually([&] { return decode_[0]->open_streams() == 0; }));
  EXPECT_TRUE(Generate(Request("other", 5)).status.ok());
  const Answer answer = ReadAnswer(reader.get());
  EXPECT_EQ(ReasonText(answer.status), "SLOW_CLIENT") << answer.status;
  EXPECT_FALSE(answer.final.has_value());
}

// Predictions, which are larger than the tokens that they are about, cost a client nothing but
// themselves: a buffer that holds the tokens is enough.
TEST_F(SlowClientTest, ClientThatReadsLateGetsTheSameAnswerWithPredictions) {
  constexpr int kTokens = 4000;
  options_.client_buffer = 96 << 10;
  v1::GenerateRequest request = StartWith(kTokens);
  request.mutable_spec()->mutable_eos()->set_steps(false);
  const auto slow = SmallWindowStub(*router_);
  std::vector<Answer> answers;
  for (const bool predict : {false, true}) {
    request.mutable_spec()->mutable_eos()->set_predict(predict);
    grpc::ClientContext context;
    const auto reader = slow->Generate(&context, request);
    ASSERT_TRUE(Eventually([&] { return decode_[0]->decode_streams() == (predict ? 2 : 1); }));
    ASSERT_TRUE(Eventually([&] { return router_->in_flight() == 0; }));
    answers.push_back(ReadAnswer(reader.get()));
    ASSERT_TRUE(answers.back().status.ok()) << answers.back().status;
    ASSERT_TRUE(answers.back().final.has_value());
  }
  EXPECT_EQ(answers[0].ids.size(), static_cast<size_t>(kTokens));
  EXPECT_EQ(answers[1].ids, answers[0].ids);
  EXPECT_EQ(answers[1].text, answers[0].text);
  EXPECT_EQ(answers[1].final->finish_reason(), answers[0].final->finish_reason());
  const auto predictions = std::ranges::count_if(
      answers[1].messages, [](const auto& message) { return message.has_prediction(); });
  EXPECT_GT(predictions, 0);
  EXPECT_LT(predictions, kTokens - 1);
  EXPECT_EQ(predictions + Metric("baton_end_predictions_dropped_total{engine=\"0\",model_name="
                                 "\"tiny\",role=\"router\""),
            kTokens - 1);
}

TEST_F(SlowClientTest, ClientWithoutProgressEndsSlow) {
  options_.deadlines.slow_client = std::chrono::milliseconds(500);
  options_.client_buffer = int64_t{1} << 30;
  // Goes on for longer than the test: it ends because nothing is taken, not by its length.
  const v1::GenerateRequest request = StartWith(10'000'000);
  const auto slow = SmallWindowStub(*router_);
  OpenCall call(slow.get(), request);
  EXPECT_TRUE(OneEndedSlow());
  EXPECT_TRUE(Eventually([&] { return decode_[0]->open_streams() == 0; }));
}

// The rest of an answer that has ended comes for as long as its client takes some of it.
TEST_F(SlowClientTest, ClientThatReadsSteadilyGetsTheRestHoweverLongItTakes) {
  constexpr int kTokens = 6000;
  const auto patience = std::chrono::milliseconds(500);
  options_.deadlines.slow_client = patience;
  const v1::GenerateRequest request = Ranked(StartWith(kTokens));
  const auto slow = SmallWindowStub(*router_);
  grpc::ClientContext context;
  const auto reader = slow->Generate(&context, request);
  std::optional<base::Instant> ended;  // when the first of the answer came, all of which is ready
  int tokens = 0;
  bool is_final = false;
  v1::GenerateResponse message;
  while (reader->Read(&message)) {
    tokens += message.delta().token_ids_size();
    is_final = message.has_final();
    if (!message.has_delta()) continue;
    if (!ended) ended = clock_.Now();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  const absl::Status status = FromGrpcStatus(reader->Finish());
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(is_final);
  EXPECT_EQ(tokens, kTokens);
  ASSERT_TRUE(ended);
  EXPECT_GT(clock_.Now() - *ended, 2 * patience);
}

// And counts until then.
TEST_F(SlowClientTest, ClientThatTakesNothingOfTheRestIsBrokenOff) {
  options_.deadlines.slow_client = std::chrono::milliseconds(500);
  const v1::GenerateRequest request = Ranked(StartWith(1500));
  const auto slow = SmallWindowStub(*router_);
  grpc::ClientContext context;
  const auto reader = slow->Generate(&context, request);
  EXPECT_TRUE(Eventually([&] { return Bytes() > 64 << 10; }));
  EXPECT_TRUE(Eventually([&] { return router_->in_flight() == 0; }));
  EXPECT_TRUE(Eventually([&] { return Bytes() == 0; }));
  const Answer answer = ReadAnswer(reader.get());
  EXPECT_EQ(answer.status.code(), absl::StatusCode::kCancelled) << answer.status;
  EXPECT_FALSE(answer.final.has_value());
}

// Its answer is ready at once, and larger than the window.
TEST_F(SlowClientTest, UnaryClientThatTakesNothingIsBrokenOffAndCountsUntilThen) {
  options_.deadlines.slow_client = std::chrono::seconds(3);
  v1::GenerateOnceRequest request;
  *request.mutable_spec() = StartWith(4000).spec();
  request.set_text("much");
  const auto slow = SmallWindowStub(*router_);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto call = slow->AsyncGenerateOnce(&context, request, &queue);
  call->ReadInitialMetadata(nullptr);  // and no message
  ASSERT_TRUE(Eventually([&] { return decode_[0]->decode_streams() == 1; }));
  // The books are closed before the answer is made.
  ASSERT_TRUE(Eventually([&] { return router_->in_flight() == 0; }));
  EXPECT_TRUE(Eventually([&] { return Bytes() > 64 << 10; }));
  EXPECT_TRUE(Eventually([&] { return Bytes() == 0; }));
  v1::GenerateOnceResponse response;
  grpc::Status status;
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  for (int events = 0; events < 2; ++events) ASSERT_TRUE(queue.Next(&tag, &ok));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
  queue.Shutdown();
}

// What comes may be refused by the service, or by a connection that was told to go.
TEST_F(LimitsTest, DrainFinishesWhatRunsRefusesWhatComesAndEndsTheRest) {
  AddDecode([&](FakeWorkerOptions& worker) { worker.script = HangAfterFirst; });
  StartRouter();
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, Request("hangs", 5));
  v1::GenerateResponse message;
  ASSERT_TRUE(reader->Read(&message));
  std::thread drain([&] { router_->Drain(std::chrono::milliseconds(300)); });
  ASSERT_TRUE(Eventually([&] { return !router_->ready().ok(); }));
  const Answer refused = Generate(Request("new", 5));
  EXPECT_FALSE(refused.status.ok());
  const Answer ended = ReadAnswer(reader.get());
  EXPECT_EQ(ended.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonText(ended.status), "DRAINED");
  drain.join();
  EXPECT_EQ(router_->in_flight(), 0u);
}

TEST_F(LimitsTest, ADrainThatIsToHurryWaitsForNothing) {
  AddDecode([&](FakeWorkerOptions& worker) { worker.script = HangAfterFirst; });
  StartRouter();
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, Request("hangs", 5));
  v1::GenerateResponse message;
  ASSERT_TRUE(reader->Read(&message));
  int asked = 0;
  router_->Drain(std::chrono::hours(1), [&] { return ++asked == 3; });
  EXPECT_EQ(ReasonText(ReadAnswer(reader.get()).status), "DRAINED");
  EXPECT_EQ(router_->in_flight(), 0u);
}

TEST_F(LimitsTest, ManyClientsSomeCancellingLeaveNothingBehind) {
  AddDecode();
  AddDecode();
  AddPrefill();
  StartRouter();
  std::vector<std::thread> clients;
  std::atomic<int> right{0};
  for (int i = 0; i < 60; ++i) {
    clients.emplace_back([&, i] {
      grpc::ClientContext context;
      const auto reader = stub_->Generate(&context, Request("many", 40));
      v1::GenerateResponse message;
      if (i % 10 == 0) {
        for (int n = 0; n < i / 10 && reader->Read(&message); ++n) {
        }
        context.TryCancel();
        ReadAnswer(reader.get());
        return;
      }
      const Answer answer = ReadAnswer(reader.get());
      right += answer.status.ok() && answer.ids == Expected("many", 40);
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(right, 54);
  EXPECT_TRUE(Eventually([&] { return router_->in_flight() == 0; }));
  const double ended =
      Metric("baton_request_success_total") + Metric("baton_request_failure_total");
  EXPECT_EQ(Metric("baton_requests_received_total"), ended);
  EXPECT_EQ(ended, 60);
  EXPECT_TRUE(Eventually([&] {
    return decode_[0]->open_streams() + decode_[1]->open_streams() + prefill_[0]->open_streams() ==
           0;
  }));
}

TEST_F(LimitsTest, TwoRoutersShareTheWorkers) {
  AddDecode();
  AddPrefill();
  StartRouter();
  MetricsRegistry other_metrics({.role = MetricRole::kRouter, .model_name = "tiny"});
  auto other = MakeRouter(&other_metrics, nullptr);
  ASSERT_TRUE(Eventually([&] { return other->ready().ok(); }));
  const auto stub = Stub(*other);
  for (int i = 0; i < 5; ++i) {
    EXPECT_THAT(Generate(Request("one", 8)).ids, ElementsAreArray(Expected("one", 8)));
    grpc::ClientContext context;
    const auto reader = stub->Generate(&context, Request("two", 8));
    EXPECT_THAT(ReadAnswer(reader.get()).ids, ElementsAreArray(Expected("two", 8)));
  }
  other.reset();
  EXPECT_TRUE(Generate(Request("one", 8)).status.ok());
}

}  // namespace
}  // namespace baton::testing
