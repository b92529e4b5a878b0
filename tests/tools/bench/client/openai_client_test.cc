#include "tools/bench/client/openai_client.h"

#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/fakes/closing_openai_server.h"
#include "tests/fakes/fake_openai_server.h"
#include "tests/tools/bench/load/load_helpers.h"
#include "tools/bench/client/open_files.h"

namespace baton::bench {
namespace {

using Json = nlohmann::json;
using testing::FakeOpenAiOptions;
using testing::FakeOpenAiServer;
using ::testing::HasSubstr;
using testing::OpenAiEnd;

std::unique_ptr<OpenAiClient> ClientOf(const FakeOpenAiServer& server,
                                       OpenAiClientOptions options = {}) {
  options.base_url = server.url();
  options.connect_timeout = std::chrono::seconds(60);
  auto client = OpenAiClient::Connect(options);
  BATON_CHECK(client.ok()) << client.status();
  return std::move(*client);
}

RequestRecord RecordOfOne(const FakeOpenAiOptions& server_options, int tokens,
                          const OpenAiClientOptions& options = {}) {
  FakeOpenAiServer server(server_options);
  const auto client = ClientOf(server, options);
  LoadResult result = LoadOf(PlanOf(1, tokens), {}, client.get());
  BATON_CHECK(result.records.size() == 1);
  return std::move(result.records[0]);
}

TEST(OpenAiClient, RecordsWhatTheServerSays) {
  for (const char* line_end : {"\n", "\r\n"}) {
    const RequestRecord record = RecordOfOne({.line_end = line_end}, 5);
    ASSERT_TRUE(record.ok()) << record.status;
    EXPECT_EQ(record.request_id, "cmpl-1");
    EXPECT_EQ(record.chunks.size(), 5u);
    EXPECT_EQ(record.output_tokens, 5);
    EXPECT_TRUE(record.counted_by_server);
    EXPECT_EQ(record.prompt_tokens, 3);
    EXPECT_EQ(record.cached_tokens, 3);
    EXPECT_EQ(record.finish_reason, "length");
    EXPECT_FALSE(record.timings);
  }
}

TEST(OpenAiClient, TimesAreThoseOfTheServer) {
  const RequestRecord record =
      RecordOfOne({.ttft = 80 * kMillisecond, .gap = 20 * kMillisecond}, 10);
  ASSERT_TRUE(record.ok()) << record.status;
  EXPECT_GE(record.first_token() - record.sent, 0.08);
  EXPECT_GE(record.last_token() - record.sent, 0.08 + 9 * 0.02);
}

// The last event may have brought one of the tokens that no other event shows.
TEST(OpenAiClient, UsageIsTheTruthAndChunksAreArrivals) {
  const RequestRecord record = RecordOfOne({.tokens_per_event = 4}, 12);
  ASSERT_TRUE(record.ok()) << record.status;
  EXPECT_EQ(record.chunks.size(), 4u);
  EXPECT_EQ(TokensOf(record), 4);
  EXPECT_EQ(record.output_tokens, 12);
}

TEST(OpenAiClient, TokensWithoutTextArriveWhenTheirEventsCome) {
  const RequestRecord record =
      RecordOfOne({.ttft = 80 * kMillisecond, .gap = 20 * kMillisecond, .text = ""}, 5);
  ASSERT_TRUE(record.ok()) << record.status;
  EXPECT_EQ(record.chunks.size(), 5u);
  EXPECT_GE(record.last_token() - record.first_token(), 0.05);
}

TEST(OpenAiClient, ALastTokenWithoutTextComesWithTheFinishReason) {
  const RequestRecord record = RecordOfOne({.gap = 300 * kMillisecond, .token_in_last = true}, 1);
  ASSERT_TRUE(record.ok()) << record.status;
  EXPECT_EQ(record.output_tokens, 2);
  EXPECT_EQ(TokensOf(record), 2);
  ASSERT_EQ(record.chunks.size(), 2u);
  EXPECT_GE(record.last_token() - record.first_token(), 0.2);
}

TEST(OpenAiClient, AFinishReasonAloneIsNoToken) {
  EXPECT_EQ(RecordOfOne({.token_in_last = true, .usage = false}, 6).chunks.size(), 6u);
  EXPECT_EQ(RecordOfOne({}, 6).chunks.size(), 6u);
}

TEST(OpenAiClient, TokenIdsAreCountedWhereTheyAreSent) {
  const RequestRecord record = RecordOfOne({.tokens_per_event = 4, .token_ids = true}, 12);
  EXPECT_EQ(record.chunks.size(), 3u);
  EXPECT_EQ(TokensOf(record), 12);
}

TEST(OpenAiClient, WithoutUsageArrivalsAreSummed) {
  const RequestRecord record = RecordOfOne({.usage = false}, 6);
  ASSERT_TRUE(record.ok()) << record.status;
  EXPECT_EQ(record.output_tokens, 6);
  EXPECT_FALSE(record.counted_by_server);
}

TEST(OpenAiClient, AStreamMayEndWithoutDoneButNotWithoutReason) {
  EXPECT_TRUE(RecordOfOne({.end = OpenAiEnd::kNoDone}, 2).ok());
  const RequestRecord record = RecordOfOne({.end = OpenAiEnd::kNothing}, 2);
  EXPECT_EQ(record.status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(MessageOf(record), HasSubstr("after 2 tokens without finish_reason"));
  EXPECT_EQ(record.output_tokens, 2);
}

TEST(OpenAiClient, DoneEndsAnAnswerButIsNone) {
  EXPECT_TRUE(RecordOfOne({.end = OpenAiEnd::kDoneAlone}, 2).ok());
  EXPECT_TRUE(RecordOfOne({.stop_after = 0, .end = OpenAiEnd::kDone}, 2).ok())
      << "it has a finish_reason";
  const RequestRecord record = RecordOfOne({.stop_after = 0, .end = OpenAiEnd::kDoneAlone}, 2);
  EXPECT_EQ(record.status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(MessageOf(record), HasSubstr("[DONE] before any token, finish_reason or usage"));
}

TEST(OpenAiClient, ABrokenConnectionKeepsWhatCameBefore) {
  const RequestRecord record = RecordOfOne({.stop_after = 3, .end = OpenAiEnd::kCut}, 10);
  EXPECT_EQ(record.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(MessageOf(record), HasSubstr("broke after 3 tokens"));
  EXPECT_EQ(record.chunks.size(), 3u);
}

TEST(OpenAiClient, WhatIsNoJsonIsQuoted) {
  const RequestRecord record = RecordOfOne({.end = OpenAiEnd::kMalformed}, 2);
  EXPECT_EQ(record.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(record), HasSubstr("oops"));
}

TEST(OpenAiClient, AnErrorInTheStreamIsTheServersWord) {
  const RequestRecord record = RecordOfOne({.end = OpenAiEnd::kErrorEvent}, 2);
  EXPECT_EQ(record.status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(MessageOf(record), HasSubstr("out of blocks"));
}

TEST(OpenAiClient, AnEventBeyondTheBoundEndsTheStream) {
  const RequestRecord record = RecordOfOne({}, 2, {.max_event_bytes = 20});
  EXPECT_EQ(record.status.code(), absl::StatusCode::kResourceExhausted);
}

TEST(OpenAiClient, HttpErrorsHaveACodeAndTheServersWords) {
  const std::pair<int, absl::StatusCode> codes[] = {{400, absl::StatusCode::kInvalidArgument},
                                                    {404, absl::StatusCode::kNotFound},
                                                    {429, absl::StatusCode::kResourceExhausted},
                                                    {500, absl::StatusCode::kInternal},
                                                    {503, absl::StatusCode::kUnavailable}};
  for (const auto& [http, code] : codes) {
    const RequestRecord record =
        RecordOfOne({.http_status = http, .body = R"({"error":{"message":"because"}})"}, 2);
    EXPECT_EQ(record.status.code(), code) << record.status;
    EXPECT_EQ(MessageOf(record), absl::StrCat("HTTP ", http, ": because"));
  }
}

TEST(OpenAiClient, AnAnswerThatIsNoStreamIsNamed) {
  const RequestRecord record = RecordOfOne({.body = R"({"choices":[]})"}, 2);
  EXPECT_EQ(record.status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(MessageOf(record), HasSubstr("application/json"));
  EXPECT_THAT(MessageOf(record), HasSubstr("expected text/event-stream"));
}

TEST(OpenAiClient, SendsWhatThePlanSays) {
  FakeOpenAiServer server({});
  RequestPlan plan = PlanOf(2, 7);
  plan.requests[1].prompt = std::string("say \"hi\"\n\xff");
  const auto client =
      ClientOf(server, {.model = "m\"x", .temperature = 0.7F, .seed = 40, .eos = EosMode::kMask});
  LoadOf(plan, {.concurrency = 1}, client.get());
  ASSERT_EQ(server.bodies().size(), 2u);
  for (int i = 0; i < 2; ++i) {
    const Json body = Json::parse(server.bodies()[static_cast<size_t>(i)]);
    EXPECT_EQ(body["model"], "m\"x");
    EXPECT_EQ(body["max_tokens"], 7);
    EXPECT_EQ(body["temperature"], 0.7);
    EXPECT_EQ(body["stream"], true);
    EXPECT_EQ(body["stream_options"]["include_usage"], true);
    EXPECT_EQ(body["seed"], 40 + i);
    EXPECT_EQ(body["ignore_eos"], true);
  }
  EXPECT_EQ(Json::parse(server.bodies()[0])["prompt"], Json({1, 2, 3}));
  EXPECT_EQ(Json::parse(server.bodies()[1])["prompt"], "say \"hi\"\n\xef\xbf\xbd");
}

TEST(OpenAiClient, APresetTakesThePlaceOfTheTemperature) {
  FakeOpenAiServer server({});
  RequestPlan plan = PlanOf(1, 2);
  plan.requests[0].preset = "q\"a";
  LoadOf(plan, {}, ClientOf(server, {.temperature = 0.7F}).get());
  ASSERT_EQ(server.bodies().size(), 1u);
  const Json body = Json::parse(server.bodies()[0]);
  EXPECT_EQ(body["preset"], "q\"a");
  EXPECT_FALSE(body.contains("temperature"));
}

TEST(OpenAiClient, ForcedLengthsIgnoreEos) {
  for (const EosMode mode : {EosMode::kHonor, EosMode::kMask, EosMode::kContinue}) {
    FakeOpenAiServer server({});
    LoadOf(PlanOf(1, 1), {}, ClientOf(server, {.eos = mode}).get());
    const Json body = Json::parse(server.bodies().at(0));
    EXPECT_EQ(body.value("ignore_eos", false), mode != EosMode::kHonor);
    EXPECT_FALSE(body.contains("seed"));
  }
}

TEST(OpenAiClient, SendsATagOnlyWhereThereIsOne) {
  FakeOpenAiServer server({});
  LoadOf(PlanOf(1, 1), {}, ClientOf(server, {}).get());
  LoadOf(PlanOf(1, 1), {}, ClientOf(server, {.tag = "night"}).get());
  EXPECT_FALSE(Json::parse(server.bodies().at(0)).contains("baton"));
  EXPECT_EQ(Json::parse(server.bodies().at(1))["baton"], Json({{"tag", "night"}}));
}

TEST(OpenAiClient, SendsTheKeyAndNamesARefusedOne) {
  FakeOpenAiServer server({.api_key = "right"});
  const auto refused = OpenAiClient::Connect({.base_url = server.url(), .api_key = "wrong"});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("OPENAI_API_KEY"));
  setenv("OPENAI_API_KEY", "right", 1);
  const auto client = ClientOf(server);
  unsetenv("OPENAI_API_KEY");
  EXPECT_TRUE(LoadOf(PlanOf(1, 1), {}, client.get()).records[0].ok());
}

TEST(OpenAiClient, AServerThatFallsSilentMeetsTheDeadline) {
  const RequestRecord record =
      RecordOfOne({.stop_after = 2, .end = OpenAiEnd::kHang}, 10, {.timeout = 300 * kMillisecond});
  EXPECT_EQ(record.status.code(), absl::StatusCode::kDeadlineExceeded) << record.status;
  EXPECT_THAT(MessageOf(record), HasSubstr("no end within 0.3 s"));
  EXPECT_GE(record.ended - record.sent, 0.29);  // curl counts in milliseconds
}

TEST(OpenAiClient, KillingTheServerFailsWhatIsUnderWayAndWhatComesLater) {
  FakeOpenAiServer server({.stop_after = 2, .end = OpenAiEnd::kHang});
  const auto client = ClientOf(server);
  const LoadResult result =
      LoadWhile(PlanOf(20, 10), {.concurrency = 5}, client.get(), [&](std::atomic<bool>*) {
        EXPECT_TRUE(server.WaitForRequests(5));
        server.Kill();
      });
  ASSERT_EQ(result.records.size(), 20u);
  for (const RequestRecord& record : result.records) {
    EXPECT_EQ(record.status.code(), absl::StatusCode::kUnavailable) << record.status;
    EXPECT_FALSE(record.cancelled);
  }
  EXPECT_THAT(MessageOf(result.records[19]), HasSubstr("refused"));
}

TEST(OpenAiClient, StopKeepsWhatWasMeasured) {
  FakeOpenAiServer server({.stop_after = 2, .end = OpenAiEnd::kHang});
  const auto client = ClientOf(server);
  const LoadResult result =
      LoadWhile(PlanOf(50, 10), {.concurrency = 10}, client.get(), [&](std::atomic<bool>* stop) {
        EXPECT_TRUE(server.WaitForRequests(10));
        *stop = true;
      });
  EXPECT_TRUE(result.interrupted);
  ASSERT_EQ(result.records.size(), 10u);
  for (const RequestRecord& record : result.records) EXPECT_TRUE(record.cancelled);
}

TEST(OpenAiClient, AKeptConnectionThatClosesUnderARequestCostsNone) {
  testing::ClosingOpenAiServer server;
  auto client = OpenAiClient::Connect({.base_url = server.url()});
  ASSERT_TRUE(client.ok()) << client.status();
  const LoadResult result = LoadOf(PlanOf(20, 1), {.concurrency = 1}, client->get());
  for (const RequestRecord& record : result.records) EXPECT_TRUE(record.ok()) << record.status;
  EXPECT_EQ(server.closes(), 19);
}

TEST(OpenAiClient, ServesMoreRequestsThanStreamsAtOnce) {
  FakeOpenAiServer server({});
  const auto client = ClientOf(server);
  const LoadResult result = LoadOf(PlanOf(200, 3), {.concurrency = 8}, client.get());
  ASSERT_EQ(result.records.size(), 200u);
  for (const RequestRecord& record : result.records) {
    EXPECT_TRUE(record.ok()) << record.status;
    EXPECT_EQ(record.chunks.size(), 3u);
  }
}

TEST(OpenAiClient, AWrongPortIsNamedAtOnce) {
  DeafPort port;
  port.Close();
  const auto client = OpenAiClient::Connect({.base_url = absl::StrCat("127.0.0.1:", port.port())});
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(client.status().code(), absl::StatusCode::kUnavailable);
  const std::string message(client.status().message());
  EXPECT_THAT(message, HasSubstr(absl::StrCat("no server at http://127.0.0.1:", port.port())));
  EXPECT_THAT(message, HasSubstr("connect"));
}

TEST(OpenAiClient, APortThatNeverAnswersIsNamedInTime) {
  DeafPort port;
  const auto client = OpenAiClient::Connect(
      {.base_url = absl::StrCat("127.0.0.1:", port.port()), .connect_timeout = 200 * kMillisecond});
  EXPECT_EQ(client.status().code(), absl::StatusCode::kUnavailable);
}

TEST(OpenAiClient, RefusesWhatItCannotUse) {
  for (const char* url : {"ftp://x:1", "http://", "http://a b"}) {
    const auto client = OpenAiClient::Connect({.base_url = url});
    EXPECT_EQ(client.status().code(), absl::StatusCode::kInvalidArgument) << url;
  }
}

TEST(OpenAiTarget, AsksForTheModelWithTheKey) {
  FakeOpenAiServer server({.api_key = "secret"});
  const auto model = [&](const std::string& key) {
    const auto target = OpenAiTarget::Make({.base_url = server.url(), .api_key = key});
    BATON_CHECK(target.ok()) << target.status();
    return (*target)->FirstModel();
  };
  EXPECT_EQ(*model("secret"), "fake");
  const absl::Status refused = model("guessed").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("HTTP 401; set OPENAI_API_KEY"));
}

TEST(OpenAiClient, MoreStreamsThanOpenFilesAreRefused) {
  const absl::Status status = AllowOpenFiles(int64_t{1} << 40);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("ulimit"));
  EXPECT_TRUE(AllowOpenFiles(1).ok());
}

TEST(OpenAiTarget, TheUrlMayHaveAPathOrNot) {
  const std::pair<const char*, const char*> urls[] = {
      {"127.0.0.1:80", "http://127.0.0.1:80/v1/completions"},
      {"http://127.0.0.1", "http://127.0.0.1:80/v1/completions"},
      {"http://127.0.0.1:9/v1/", "http://127.0.0.1:9/v1/completions"},
      {"https://127.0.0.1/openai/", "https://127.0.0.1:443/openai/v1/completions"},
      {"http://[::1]:9", "http://[::1]:9/v1/completions"}};
  for (const auto& [given, full] : urls) {
    const auto target = OpenAiTarget::Make({.base_url = given});
    ASSERT_TRUE(target.ok()) << target.status();
    EXPECT_EQ((*target)->url(), full);
  }
}

TEST(OpenAiTarget, FilesForTlsMeanHttps) {
  const auto target = [](const std::string& given) {
    return OpenAiTarget::Make(
        {.base_url = given, .look_up_once = false, .tls = {.ca_file = "ca.pem"}});
  };
  EXPECT_EQ((*target("h:1"))->url(), "https://h:1/v1/completions");
  EXPECT_EQ((*target("https://h:1"))->url(), "https://h:1/v1/completions");
  for (const char* clear : {"http://h:1", "HTTP://h:1"}) {
    const absl::Status refused = target(clear).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << clear;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("https://HOST:PORT")) << clear;
  }
}

}  // namespace
}  // namespace baton::bench
