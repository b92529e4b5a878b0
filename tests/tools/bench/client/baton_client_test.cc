#include "tools/bench/client/baton_client.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/timed_inference_server.h"
#include "tests/tools/bench/load/load_helpers.h"

namespace baton::bench {
namespace {

using ::testing::HasSubstr;
using testing::TimedEnd;
using testing::TimedInferenceServer;
using testing::TimedServerOptions;

std::unique_ptr<BatonClient> ClientOf(const TimedInferenceServer& server,
                                      BatonClientOptions options = {}) {
  options.address = server.address();
  options.connect_timeout = std::chrono::seconds(60);
  auto client = BatonClient::Connect(options);
  BATON_CHECK(client.ok()) << client.status();
  return std::move(*client);
}

TEST(BatonClient, RecordsWhatTheServerSays) {
  TimedInferenceServer server({.natural_end_step = 4});
  const auto client = ClientOf(server, {.eos = EosMode::kMask});
  const LoadResult result = LoadOf(PlanOf(1, 5), {}, client.get());
  ASSERT_EQ(result.records.size(), 1u);
  const RequestRecord& record = result.records[0];
  ASSERT_TRUE(record.ok()) << record.status;
  EXPECT_EQ(record.request_id, "timed");
  EXPECT_EQ(record.chunks.size(), 5u);
  EXPECT_EQ(TokensOf(record), 5);
  EXPECT_EQ(record.output_tokens, 5);
  EXPECT_EQ(record.prompt_tokens, 3);
  EXPECT_EQ(record.natural_end_step, 4);
  EXPECT_EQ(record.finish_reason, "length");
  EXPECT_EQ(record.attempts, 1);
  ASSERT_TRUE(record.timings);
  EXPECT_EQ(record.timings->prefill_ms, 1.5);
}

TEST(BatonClient, NamesItsTenant) {
  TimedInferenceServer server({});
  LoadOf(PlanOf(1, 2), {}, ClientOf(server).get());
  LoadOf(PlanOf(1, 2), {}, ClientOf(server, {.as_tenant = "search"}).get());
  EXPECT_THAT(server.tenants(), ::testing::ElementsAre("", "search"));
}

TEST(BatonClient, SendsItsTag) {
  TimedInferenceServer server({});
  LoadOf(PlanOf(1, 2), {}, ClientOf(server).get());
  LoadOf(PlanOf(1, 2), {}, ClientOf(server, {.tag = "night"}).get());
  ASSERT_EQ(server.requests().size(), 2u);
  EXPECT_EQ(server.requests()[0].spec().tag(), "");
  EXPECT_EQ(server.requests()[1].spec().tag(), "night");
}

TEST(BatonClient, TimesAreThoseOfTheServer) {
  TimedInferenceServer server({.ttft = 80 * kMillisecond, .gap = 20 * kMillisecond});
  const auto client = ClientOf(server);
  const LoadResult result = LoadOf(PlanOf(3, 10, 10 * kMillisecond), {}, client.get());
  for (const RequestRecord& record : result.records) {
    ASSERT_TRUE(record.ok()) << record.status;
    ASSERT_EQ(record.chunks.size(), 10u);
    EXPECT_GE(record.first_token() - record.sent, 0.08);
    EXPECT_GE(record.last_token() - record.sent, 0.08 + 9 * 0.02);
    EXPECT_GE(record.ended, record.last_token());
  }
}

TEST(BatonClient, CountsEveryTokenOfAMessage) {
  TimedInferenceServer server({.tokens_per_message = 4});
  const LoadResult result = LoadOf(PlanOf(1, 10), {}, ClientOf(server).get());
  EXPECT_EQ(result.records[0].chunks.size(), 3u);
  EXPECT_EQ(result.records[0].chunks[2].tokens, 2);
  EXPECT_EQ(TokensOf(result.records[0]), 10);
}

TEST(BatonClient, SendsWhatThePlanSays) {
  TimedInferenceServer server({});
  RequestPlan plan = PlanOf(2, 7);
  plan.requests[1].prompt = std::string("text");
  LoadOf(plan, {}, ClientOf(server, {.model = "m", .seed = 40, .eos = EosMode::kContinue}).get());
  ASSERT_EQ(server.requests().size(), 2u);
  for (const v1::GenerateRequest& request : server.requests()) {
    EXPECT_EQ(request.spec().model(), "m");
    EXPECT_EQ(request.spec().stop().max_tokens(), 7);
    EXPECT_EQ(request.spec().stop().eos_policy(), v1::EOS_POLICY_IGNORE_CONTINUE);
    EXPECT_TRUE(request.spec().sampling().has_temperature());
    EXPECT_EQ(request.spec().sampling().temperature(), 0);
    if (request.has_text()) {
      EXPECT_EQ(request.text(), "text");
      EXPECT_EQ(request.spec().sampling().seed(), 41u);
    } else {
      EXPECT_THAT(request.token_ids().ids(), ::testing::ElementsAre(1, 2, 3));
      EXPECT_EQ(request.spec().sampling().seed(), 40u);
    }
  }
}

TEST(BatonClient, APresetTakesThePlaceOfTheTemperature) {
  TimedInferenceServer server({});
  RequestPlan plan = PlanOf(1, 2);
  plan.requests[0].preset = "qa";
  LoadOf(plan, {}, ClientOf(server, {.temperature = 0.7F}).get());
  ASSERT_EQ(server.requests().size(), 1u);
  EXPECT_EQ(server.requests()[0].spec().preset(), "qa");
  EXPECT_FALSE(server.requests()[0].spec().sampling().has_temperature());
}

TEST(BatonClient, EosModesAreThoseOfTheProtocol) {
  const std::pair<EosMode, v1::EosPolicy> modes[] = {
      {EosMode::kHonor, v1::EOS_POLICY_HONOR},
      {EosMode::kMask, v1::EOS_POLICY_IGNORE_MASK},
      {EosMode::kContinue, v1::EOS_POLICY_IGNORE_CONTINUE}};
  for (const auto& [mode, policy] : modes) {
    TimedInferenceServer server({});
    LoadOf(PlanOf(1, 1), {}, ClientOf(server, {.eos = mode}).get());
    EXPECT_EQ(server.requests().at(0).spec().stop().eos_policy(), policy);
    EXPECT_FALSE(server.requests().at(0).spec().sampling().has_seed());
  }
}

TEST(BatonClient, AnErrorKeepsWhatCameBefore) {
  TimedInferenceServer server(
      {.stop_after = 3,
       .end = TimedEnd::kStatus,
       .status = grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "no blocks")});
  const LoadResult result = LoadOf(PlanOf(1, 10), {}, ClientOf(server).get());
  const RequestRecord& record = result.records[0];
  EXPECT_EQ(record.status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(MessageOf(record), HasSubstr("no blocks"));
  EXPECT_FALSE(record.cancelled);
  EXPECT_EQ(record.chunks.size(), 3u);
  EXPECT_EQ(record.output_tokens, 3);
}

TEST(BatonClient, AStreamWithoutFinalIsAnError) {
  TimedInferenceServer server({.stop_after = 2, .end = TimedEnd::kNoFinal});
  const LoadResult result = LoadOf(PlanOf(1, 10), {}, ClientOf(server).get());
  EXPECT_EQ(result.records[0].status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(MessageOf(result.records[0]), HasSubstr("after 2 tokens"));
}

TEST(BatonClient, AServerThatFallsSilentMeetsTheDeadline) {
  TimedInferenceServer server({.stop_after = 2, .end = TimedEnd::kHang});
  const auto client = ClientOf(server, {.timeout = 300 * kMillisecond});
  const LoadResult result = LoadOf(PlanOf(4, 10), {}, client.get());
  for (const RequestRecord& record : result.records) {
    EXPECT_EQ(record.status.code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(MessageOf(record), HasSubstr("no end within 0.3 s"));
    EXPECT_FALSE(record.cancelled);
    EXPECT_GE(record.ended - record.sent, 0.29);  // gRPC rounds to milliseconds
  }
}

// What a closed loop or a clock that starts at the sending would hide: arrivals go on while the
// server is frozen, and each of them waits for its end.
TEST(BatonClient, AFreezeShowsInEveryArrivalThatItMeets) {
  TimedInferenceServer server(
      {.freeze_after = 200 * kMillisecond, .freeze_for = 400 * kMillisecond});
  const auto client = ClientOf(server);
  const LoadResult result = LoadOf(PlanOf(300, 2, 5 * kMillisecond), {}, client.get());
  const auto since_start = [&](base::Instant when) { return base::Seconds(when - result.started); };
  const double from = since_start(server.frozen_from());
  const double until = since_start(server.frozen_until());
  EXPECT_NEAR(until - from, 0.4, 1e-9);
  int met = 0;
  for (const RequestRecord& record : result.records) {
    ASSERT_TRUE(record.ok()) << record.status;
    if (record.scheduled < from || record.scheduled >= until) continue;
    ++met;
    EXPECT_GE(record.first_token(), until) << record.index;
    EXPECT_GE(record.first_token() - record.scheduled, until - record.scheduled);
  }
  EXPECT_GT(met, 0);
}

TEST(BatonClient, KillingTheServerFailsWhatIsUnderWayAndWhatComesLater) {
  TimedInferenceServer server({.stop_after = 2, .end = TimedEnd::kHang});
  const auto client = ClientOf(server);
  const LoadResult result =
      LoadWhile(PlanOf(20, 10), {.concurrency = 5}, client.get(), [&](std::atomic<bool>*) {
        EXPECT_TRUE(server.WaitForOpenStreams(5));
        server.Kill();
      });
  ASSERT_EQ(result.records.size(), 20u);
  for (const RequestRecord& record : result.records) {
    EXPECT_FALSE(record.status.ok());
    EXPECT_FALSE(record.cancelled);
  }
  EXPECT_EQ(result.records[19].status.code(), absl::StatusCode::kUnavailable);
}

TEST(BatonClient, StopCancelsStreamsAtTheServerToo) {
  TimedInferenceServer server({.stop_after = 2, .end = TimedEnd::kHang});
  const auto client = ClientOf(server);
  const LoadResult result =
      LoadWhile(PlanOf(50, 10), {.concurrency = 10}, client.get(), [&](std::atomic<bool>* stop) {
        EXPECT_TRUE(server.WaitForOpenStreams(10));
        *stop = true;
      });
  EXPECT_TRUE(result.interrupted);
  ASSERT_EQ(result.records.size(), 10u);
  for (const RequestRecord& record : result.records) {
    EXPECT_TRUE(record.cancelled);
    EXPECT_EQ(record.status.code(), absl::StatusCode::kCancelled);
  }
  EXPECT_TRUE(server.WaitForOpenStreams(0));
}

TEST(BatonClient, ACancelByTheServerIsAFailure) {
  TimedInferenceServer server({.stop_after = 0,
                               .end = TimedEnd::kStatus,
                               .status = grpc::Status(grpc::StatusCode::CANCELLED, "by it")});
  const LoadResult result = LoadOf(PlanOf(1, 1), {}, ClientOf(server).get());
  EXPECT_EQ(result.records[0].status.code(), absl::StatusCode::kCancelled);
  EXPECT_FALSE(result.records[0].cancelled);
}

class SilentObserver final : public StreamClient::Observer {
 public:
  explicit SilentObserver(std::atomic<int>* ends) : ends_(ends) {}
  void OnChunk(base::Instant, int32_t) override {}
  void OnEnd(base::Instant, RequestRecord) override { ++*ends_; }

 private:
  std::atomic<int>* const ends_;
};

TEST(BatonClient, EveryObserverHasHeardTheEndWhenTheClientIsGone) {
  TimedInferenceServer server({.stop_after = 0, .end = TimedEnd::kHang});
  const RequestPlan plan = PlanOf(30, 5);
  std::atomic<int> ends = 0;
  auto client = ClientOf(server);
  for (const PlannedRequest& request : plan.requests) {
    client->Start(request, std::make_shared<SilentObserver>(&ends));
  }
  client.reset();
  EXPECT_EQ(ends, 30);
}

TEST(BatonClient, KeepsManyStreamsOnFewConnections) {
  TimedInferenceServer server({.stop_after = 1, .end = TimedEnd::kHang});
  const auto client = ClientOf(server, {.connections = 2});
  LoadWhile(PlanOf(300, 10), {.concurrency = 300}, client.get(), [&](std::atomic<bool>* stop) {
    EXPECT_TRUE(server.WaitForOpenStreams(300));
    *stop = true;
  });
  EXPECT_EQ(server.most_open_streams(), 300);
}

TEST(BatonClient, AWrongPortIsNamedAtOnce) {
  DeafPort port;
  port.Close();
  const std::string address = absl::StrCat("127.0.0.1:", port.port());
  const auto client =
      BatonClient::Connect({.address = address, .connect_timeout = std::chrono::seconds(60)});
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(client.status().code(), absl::StatusCode::kUnavailable);
  const std::string message(client.status().message());
  EXPECT_THAT(message, HasSubstr("no Baton server at " + address));
  EXPECT_THAT(message, HasSubstr("refused"));
  EXPECT_THAT(message, HasSubstr("baton serve"));
}

TEST(BatonClient, APortThatSpeaksNoGrpcIsNamedInTime) {
  DeafPort port;
  const auto client = BatonClient::Connect(
      {.address = absl::StrCat("127.0.0.1:", port.port()), .connect_timeout = 300 * kMillisecond});
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(client.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(client.status().message()), HasSubstr("within 0.3 s"));
}

}  // namespace
}  // namespace baton::bench
