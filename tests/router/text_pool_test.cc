// What waits for the text pool: its bounds, those of all requests' bytes, and callers that go
// meanwhile.
#include <gmock/gmock.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "common/rpc/status_map.h"
#include "tests/router/gate_tokenizer.h"
#include "tests/router/router_fixture.h"

namespace baton::testing {
namespace {

using ::testing::ElementsAre;

// A router with one text thread, which stands still in the text "gate".
class TextPoolTest : public RouterTest {
 protected:
  TextPoolTest() {
    options_.text_threads = 1;
    change_model_ = [this](ServedModel* model) {
      model->tokenizer = std::make_unique<GateTokenizer>(std::move(model->tokenizer), &gate_);
    };
    AddDecode();
  }
  ~TextPoolTest() override {
    gate_.Open();
    JoinClients();
  }
  void JoinClients() {
    for (std::thread& client : clients_) client.join();
    clients_.clear();
  }

  absl::Status GenerateAs(const std::string& tenant, const v1::GenerateRequest& request) {
    grpc::ClientContext context;
    context.AddMetadata("baton-tenant", tenant);
    return Generate(request, &context).status;
  }
  absl::Status TokenizeAs(const std::string& tenant, const std::string& text) {
    grpc::ClientContext context;
    context.AddMetadata("baton-tenant", tenant);
    return Tokenize(text, &context);
  }

  void HoldThePool() {
    StartRouter();
    clients_.emplace_back([this] { EXPECT_TRUE(Tokenize("gate").ok()); });
    ASSERT_TRUE(Eventually([&] { return gate_.seen().size() == 1; }));
  }
  absl::Status Tokenize(const std::string& text, grpc::ClientContext* context) {
    v1::TokenizeRequest request;
    request.set_text(text);
    v1::TokenizeResponse response;
    return FromGrpcStatus(stub_->Tokenize(context, request, &response));
  }
  absl::Status Tokenize(const std::string& text) {
    grpc::ClientContext context;
    return Tokenize(text, &context);
  }
  bool Waiting(size_t count) {
    return Eventually([&] { return router_->texts_waiting() == count; });
  }

  Gate gate_;
  std::vector<std::thread> clients_;
};

TEST_F(TextPoolTest, CancelledTokenizeIsNeverTokenized) {
  HoldThePool();
  grpc::ClientContext context;
  clients_.emplace_back(
      [&] { EXPECT_EQ(Tokenize("gone", &context).code(), absl::StatusCode::kCancelled); });
  ASSERT_TRUE(Waiting(1));
  context.TryCancel();
  ASSERT_TRUE(Waiting(0));
  gate_.Open();
  EXPECT_TRUE(Tokenize("after").ok());
  EXPECT_THAT(gate_.seen(), ElementsAre("gate", "after"));
}

TEST_F(TextPoolTest, CancelledRequestIsNeverTokenizedAndFreesItsPlace) {
  HoldThePool();
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, Request("gone", 3));
  ASSERT_TRUE(Waiting(1));
  context.TryCancel();
  ASSERT_TRUE(Waiting(0));
  EXPECT_EQ(ReadAnswer(reader.get()).status.code(), absl::StatusCode::kCancelled);
  gate_.Open();
  EXPECT_TRUE(Generate(Request("after", 3)).status.ok());
  EXPECT_THAT(gate_.seen(), ElementsAre("gate", "after"));
}

TEST_F(TextPoolTest, RefusesBeyondItsBoundsWithBothNumbersAndRetryInfo) {
  options_.max_num_queued_reqs = 1;
  options_.text_queue_bytes = 64;
  HoldThePool();
  const absl::Status bytes = Tokenize(std::string(64, 'x'));
  EXPECT_EQ(ReasonText(bytes), "QUEUE_FULL");
  EXPECT_THAT(DetailOf(bytes).values, ::testing::Contains(::testing::Pair("limit", "64")));
  clients_.emplace_back([this] { EXPECT_TRUE(Tokenize("waits").ok()); });
  ASSERT_TRUE(Waiting(1));
  for (const absl::Status& refused : {Tokenize("more"), Generate(Request("more", 3)).status}) {
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(ReasonText(refused), "QUEUE_FULL");
    EXPECT_THAT(DetailOf(refused).values, ::testing::IsSupersetOf({::testing::Pair("have", "2"),
                                                                   ::testing::Pair("limit", "1")}));
    EXPECT_TRUE(DetailOf(refused).retry_after.has_value());
  }
}

TEST_F(TextPoolTest, MetricsTellWhatWaitsAndWhatFoundNoRoom) {
  options_.max_num_queued_reqs = 1;
  HoldThePool();
  clients_.emplace_back([this] { EXPECT_TRUE(Generate(Request("waits", 3)).status.ok()); });
  ASSERT_TRUE(Waiting(1));
  EXPECT_EQ(Metric("baton_texts_waiting"), 1);
  EXPECT_EQ(Metric("baton_text_bytes_waiting"), 5);
  EXPECT_EQ(Metric("baton_queue_rejections_total"), 0);
  EXPECT_EQ(ReasonText(Tokenize("more")), "QUEUE_FULL");
  EXPECT_EQ(ReasonText(Generate(Request("more", 3)).status), "QUEUE_FULL");
  EXPECT_EQ(Metric("baton_queue_rejections_total{engine=\"0\",model_name=\"tiny\","
                   "role=\"router\",limit=\"text\""),
            2);
  gate_.Open();
  JoinClients();
  EXPECT_EQ(Metric("baton_texts_waiting"), 0);
  EXPECT_EQ(Metric("baton_text_bytes_waiting"), 0);
}

TEST_F(TextPoolTest, RequestsBeyondTheirBytesAreRefusedAndHarmNobody) {
  options_.max_inflight_bytes = 2000;
  HoldThePool();
  Answer waiting;
  clients_.emplace_back([&] { waiting = Generate(Request(std::string(300, 'a'), 3)); });
  ASSERT_TRUE(Waiting(1));
  const std::string large(1300, 'b');
  for (const absl::Status& refused : {Tokenize(large), Generate(Request(large, 3)).status}) {
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(ReasonText(refused), "QUEUE_FULL");
    EXPECT_THAT(DetailOf(refused).values, ::testing::Contains(::testing::Pair("limit", "1500")));
    EXPECT_TRUE(DetailOf(refused).retry_after.has_value());
  }
  EXPECT_GT(Metric("baton_request_bytes_inflight"), 300);
  EXPECT_LT(Metric("baton_request_bytes_inflight"), 400);
  gate_.Open();
  JoinClients();
  EXPECT_EQ(waiting.ids.size(), 3u);
  EXPECT_TRUE(Eventually([&] { return Metric("baton_request_bytes_inflight") == 0; }));
  EXPECT_TRUE(Tokenize(large).ok());
}

TEST_F(TextPoolTest, PromptIsHeldAsItsIdsUntilTheRequestEnds) {
  gate_.Open();
  decode_[0]->SetLoad([](worker::v1::WorkerLoad* load) { load->set_prefill_places_free(0); });
  StartRouter();
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, Request("held", 3));
  EXPECT_TRUE(Eventually([&] {
    return Metric("baton_request_bytes_inflight") == 5 * sizeof(TokenId);  // with BOS
  }));
  context.TryCancel();
  ReadAnswer(reader.get());
  EXPECT_TRUE(Eventually([&] { return Metric("baton_request_bytes_inflight") == 0; }));
}

// A request that is fine and large: as many stop strings as there may be.
v1::GenerateRequest LargeRequest() {
  v1::GenerateRequest request = RouterTest::Request("large", 3);
  for (int i = 0; i < 64; ++i) {
    request.mutable_spec()->mutable_stop()->add_stop(std::string(256, '~'));
  }
  return request;
}

TEST_F(TextPoolTest, LargeMessageIsReadOnThePool) {
  HoldThePool();
  Answer answer;
  clients_.emplace_back([&] { answer = Generate(LargeRequest()); });
  ASSERT_TRUE(Waiting(1));
  EXPECT_EQ(router_->in_flight(), 0u);
  gate_.Open();
  JoinClients();
  EXPECT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.ids.size(), 3u);
}

TEST_F(TextPoolTest, LargeMessageOfACallerThatWentIsNeverRead) {
  HoldThePool();
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, LargeRequest());
  ASSERT_TRUE(Waiting(1));
  EXPECT_GT(Metric("baton_request_bytes_inflight"), 64 * 256);
  context.TryCancel();
  ASSERT_TRUE(Waiting(0));
  ReadAnswer(reader.get());
  EXPECT_TRUE(Eventually([&] { return Metric("baton_requests_inflight") == 0; }));
  EXPECT_EQ(Metric("baton_request_failure_total{finished_reason=\"abort\""), 1);
  EXPECT_TRUE(Eventually([&] { return Metric("baton_request_bytes_inflight") < 100; }));
  gate_.Open();
  EXPECT_TRUE(Tokenize("after").ok());
  EXPECT_THAT(gate_.seen(), ElementsAre("gate", "after"));
}

// Whatever waits there: a call of Tokenize, a prompt, a message that is read on the pool.
TEST_F(TextPoolTest, FullPoolLeavesRoomToAnotherTenantAndTellsWhoLeft) {
  options_.trust_tenant_header = true;
  options_.max_num_queued_reqs = 2;
  HoldThePool();
  clients_.emplace_back([&] { EXPECT_TRUE(TokenizeAs("a", "stays").ok()); });
  ASSERT_TRUE(Waiting(1));
  const std::vector<std::function<absl::Status()>> last = {
      [this] { return TokenizeAs("a", "leaves"); },
      [this] { return GenerateAs("a", Request("leaves", 3)); },
      [this] { return GenerateAs("a", LargeRequest()); }};
  for (const auto& send : last) {
    const auto end = std::make_shared<std::promise<absl::Status>>();
    clients_.emplace_back([send, end] { end->set_value(send()); });
    ASSERT_TRUE(Waiting(2));
    grpc::ClientContext context;
    context.AddMetadata("baton-tenant", "b");
    const auto reader = stub_->Generate(&context, Request("comes", 3));
    std::future<absl::Status> ended = end->get_future();
    ASSERT_EQ(ended.wait_for(std::chrono::seconds(20)), std::future_status::ready);
    const absl::Status left = ended.get();
    EXPECT_EQ(ReasonText(left), "QUEUE_FULL") << left;
    EXPECT_TRUE(DetailOf(left).retry_after.has_value());
    EXPECT_EQ(router_->texts_waiting(), 2u);
    context.TryCancel();
    ReadAnswer(reader.get());
    ASSERT_TRUE(Waiting(1));
  }
  EXPECT_TRUE(Eventually([&] { return router_->in_flight() == 0; }));
  EXPECT_EQ(Metric("baton_requests_inflight"), 0);
  gate_.Open();
  JoinClients();
  EXPECT_THAT(gate_.seen(), ElementsAre("gate", "stays"));
}

TEST_F(TextPoolTest, MoreIdsThanFitAreRefusedBeforeTheyWait) {
  HoldThePool();
  v1::GenerateRequest request = Request("", 3);
  for (int i = 0; i <= kContext; ++i) request.mutable_token_ids()->add_ids('x');
  const Answer refused = Generate(request);
  EXPECT_EQ(ReasonText(refused.status), "TOO_LONG");
  EXPECT_THAT(DetailOf(refused.status).values,
              ::testing::Contains(::testing::Pair("have", std::to_string(kContext + 1))));
}

}  // namespace
}  // namespace baton::testing
