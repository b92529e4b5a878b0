// Answers that a router gathers, because their client gets them in one piece: what they count, and
// where they end.
#include <gmock/gmock.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/rpc/status_map.h"
#include "grpcpp/client_context.h"
#include "tests/fakes/raw_http.h"
#include "tests/router/router_fixture.h"
#include "tests/router/small_window.h"

namespace baton::testing {
namespace {

using ::testing::HasSubstr;

// Longer than what ends at once takes to end.
constexpr auto kAWhile = std::chrono::milliseconds(300);

class GatheredTest : public RouterTest {
 protected:
  GatheredTest() { http_options_.emplace(); }

  // Each answer stops behind `tokens`, so that what was gathered by then stays; 0: it goes on.
  void StartWith(int32_t tokens) {
    AddDecode([&](FakeWorkerOptions& worker) {
      worker.model = [](const std::vector<int32_t>&) { return int32_t{'a'}; };
      worker.max_model_len = 1 << 24;
      worker.blocks_total = 1 << 20;
      worker.script = [tokens](const FakeMoment& moment) {
        const bool stops = moment.point == FakePoint::kToken && moment.index == tokens;
        return tokens > 0 && stops ? FakeAction::Hang() : FakeAction::Go();
      };
    });
    StartRouter();
  }
  double Bytes() { return Metric("baton_request_bytes_inflight{engine=\"0\""); }

  static v1::GenerateRequest Long(int32_t max_tokens) {
    v1::GenerateRequest request = Request("much", max_tokens);
    request.mutable_spec()->mutable_eos()->set_steps(true);
    return request;
  }
  static v1::GenerateOnceRequest LongOnce(int32_t max_tokens) {
    v1::GenerateOnceRequest request;
    *request.mutable_spec() = Long(max_tokens).spec();
    request.set_text("much");
    return request;
  }
  grpc::Status Once(grpc::ClientContext* context, const v1::GenerateOnceRequest& request) {
    v1::GenerateOnceResponse response;
    return stub_->GenerateOnce(context, request, &response);
  }
  std::unique_ptr<RawHttp> OpenHttp(const std::string& body, int receive_buffer = 0) {
    const std::string address = router_->http_address();
    const int port = std::stoi(address.substr(address.rfind(':') + 1));
    auto client = std::make_unique<RawHttp>(port, receive_buffer);
    EXPECT_TRUE(
        client->Send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                     "Connection: close\r\nContent-Type: application/json\r\nContent-Length: " +
                     std::to_string(body.size()) + "\r\n\r\n" + body));
    return client;
  }
};

TEST_F(GatheredTest, OneMessageCountsWhileItGrowsAndNoMoreOnceItsClientWent) {
  StartWith(4000);
  grpc::ClientContext context;
  std::thread client([&] { Once(&context, LongOnce(10'000)); });
  EXPECT_TRUE(Eventually([&] { return Bytes() > 256 << 10; }));
  context.TryCancel();
  client.join();
  EXPECT_TRUE(Eventually([&] { return Bytes() == 0; }));
}

TEST_F(GatheredTest, AnswersThatAreRankedCountEvenInAStream) {
  StartWith(2000);
  v1::GenerateRequest request = Long(10'000);
  request.mutable_spec()->mutable_sampling()->set_temperature(1);
  request.mutable_spec()->mutable_sampling()->set_best_of(2);
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, request);
  EXPECT_TRUE(Eventually([&] { return Bytes() > 256 << 10; }));
  context.TryCancel();
  ReadAnswer(reader.get());
  EXPECT_TRUE(Eventually([&] { return Bytes() == 0; }));
}

// It has ended once its first token is there, and is far larger than the client's window.
TEST_F(GatheredTest, AnswersThatAreRankedCountInAStreamUntilTheirClientHasThemOrIsGone) {
  StartWith(0);
  v1::GenerateRequest request = Long(6000);
  request.mutable_spec()->mutable_sampling()->set_temperature(1);
  request.mutable_spec()->mutable_sampling()->set_best_of(2);
  const auto slow = SmallWindowStub(*router_);
  for (const bool reads : {false, true}) {
    grpc::ClientContext context;
    const auto reader = slow->Generate(&context, request);
    v1::GenerateResponse message;
    while (reader->Read(&message) && !message.has_delta()) {
    }
    EXPECT_FALSE(Eventually([&] { return Bytes() == 0; }, kAWhile));
    if (!reads) context.TryCancel();
    EXPECT_EQ(ReadAnswer(reader.get()).status.ok(), reads);
    EXPECT_TRUE(Eventually([&] { return Bytes() == 0; }));
  }
}

TEST_F(GatheredTest, WhatIsNotStreamedOverHttpCountsWhileItGrows) {
  StartWith(4000);
  const auto client =
      OpenHttp(R"({"prompt":"much","max_tokens":10000,"baton":{"eos_steps":true}})");
  EXPECT_TRUE(Eventually([&] { return Bytes() > 256 << 10; }));
  client->Close();
  EXPECT_TRUE(Eventually([&] { return Bytes() == 0; }));
}

TEST_F(GatheredTest, ScoresOfAPromptCountLikeTokens) {
  AddDecode([&](FakeWorkerOptions& worker) {
    worker.max_model_len = 1 << 24;
    worker.blocks_total = 1 << 20;
    worker.script = [](const FakeMoment& moment) {
      return moment.point == FakePoint::kStarted ? FakeAction::Hang() : FakeAction::Go();
    };
  });
  StartRouter();
  v1::GenerateOnceRequest request = LongOnce(1);
  request.set_text(std::string(500, 'x'));
  request.mutable_spec()->mutable_output()->set_logprobs(20);
  request.mutable_spec()->mutable_output()->set_prompt_logprobs(true);
  grpc::ClientContext context;
  std::thread client([&] { Once(&context, request); });
  EXPECT_TRUE(Eventually([&] { return Bytes() > 256 << 10; }));
  context.TryCancel();
  client.join();
}

// It ends, and the same answer in a stream does not.
TEST_F(GatheredTest, OneAnswerGathersAQuarterOfWhatMayBeInFlight) {
  options_.max_inflight_bytes = 1 << 20;
  StartWith(0);
  grpc::ClientContext context;
  const absl::Status status = FromGrpcStatus(Once(&context, LongOnce(4000)));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(ReasonText(status), "LIMIT_EXCEEDED");
  EXPECT_THAT(std::string(status.message()), HasSubstr("at most 262144"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("stream"));
  EXPECT_TRUE(Eventually([&] { return decode_[0]->open_streams() == 0; }));
  EXPECT_EQ(Bytes(), 0);
  EXPECT_TRUE(Generate(Long(4000)).status.ok());
}

TEST_F(GatheredTest, OverHttpAnAnswerThatGathersTooMuchIsRefusedAsTheRequestsFault) {
  options_.max_inflight_bytes = 1 << 20;
  StartWith(0);
  const auto client =
      OpenHttp(R"({"prompt":"much","max_tokens":20000,"baton":{"eos_steps":true}})");
  EXPECT_THAT(client->ReadTo("}}"), ::testing::AllOf(HasSubstr("HTTP/1.1 400"),
                                                     HasSubstr("\"code\":\"limit_exceeded\"")));
}

// They may gather three quarters of what their client may hold; the rest is for requests that come.
TEST_F(GatheredTest, AllThatIsGatheredLeavesRoomForRequestsThatCome) {
  options_.max_inflight_bytes = 1 << 20;
  StartWith(1200);
  constexpr int kCalls = 6;
  std::vector<grpc::ClientContext> contexts(kCalls);
  std::vector<absl::Status> statuses(kCalls);
  std::atomic<int> refused = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < kCalls; ++i) {
    clients.emplace_back([&, i] {
      statuses[i] = FromGrpcStatus(Once(&contexts[i], LongOnce(10'000)));
      refused += ReasonText(statuses[i]) == "QUEUE_FULL" ? 1 : 0;
    });
  }
  EXPECT_TRUE(Eventually([&] { return refused > 0; }));
  EXPECT_LE(Bytes(), 576 << 10);
  EXPECT_TRUE(Generate(Request("more", 3)).status.ok());
  for (grpc::ClientContext& context : contexts) context.TryCancel();
  for (std::thread& client : clients) client.join();
  for (const absl::Status& status : statuses) {
    if (ReasonText(status) != "QUEUE_FULL") continue;
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_TRUE(DetailOf(status).retry_after.has_value());
    EXPECT_THAT(std::string(status.message()), HasSubstr("589824"));
  }
}

// Its answer is far larger than what the kernel holds for a client that reads nothing.
TEST_F(GatheredTest, AWholeAnswerOverHttpCountsUntilItsClientHasItOrIsGone) {
  StartWith(0);
  const std::string body = R"({"max_tokens":1,"echo":true,"logprobs":20,"prompt":")" +
                           std::string(30'000, 'x') + R"("})";
  for (const bool reads : {true, false}) {
    const auto client = OpenHttp(body, reads ? 0 : 4096);
    ASSERT_TRUE(Eventually([&] { return decode_[0]->decode_streams() == (reads ? 1 : 2); }));
    ASSERT_TRUE(Eventually([&] { return router_->in_flight() == 0; }, std::chrono::minutes(1)));
    EXPECT_TRUE(Eventually([&] { return Bytes() > 5 << 20; }));
    if (reads) {
      const std::string head = client->ReadTo("\r\n\r\n");
      const size_t bytes = std::stoul(head.substr(head.find("Content-Length: ") + 16));
      EXPECT_EQ(client->ReadBytes(bytes).size(), bytes);
    } else {
      client->Close();
    }
    EXPECT_TRUE(Eventually([&] { return Bytes() == 0; }));
  }
}

TEST_F(GatheredTest, AnswersThatAreRankedCountInAStreamOverHttpUntilTheirClientHasThemOrIsGone) {
  StartWith(0);
  const std::string body =
      R"({"stream":true,"n":1,"best_of":2,"temperature":1,"max_tokens":6000,"logprobs":20,)"
      R"("prompt":"much"})";
  for (const bool reads : {true, false}) {
    const auto client = OpenHttp(body, reads ? 0 : 4096);
    // Its head comes with all of it.
    EXPECT_THAT(client->ReadTo("\r\n\r\n"), HasSubstr("HTTP/1.1 200"));
    EXPECT_FALSE(Eventually([&] { return Bytes() == 0; }, kAWhile));
    if (reads) {
      EXPECT_THAT(client->ReadAll(), HasSubstr("data: [DONE]"));
    } else {
      client->Close();
    }
    EXPECT_TRUE(Eventually([&] { return Bytes() == 0; }));
  }
}

}  // namespace
}  // namespace baton::testing
