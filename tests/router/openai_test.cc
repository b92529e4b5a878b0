// The OpenAI protocol over a router's HTTP port, with fake workers behind it.
#include <gmock/gmock.h>
#include <httplib.h>

#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/fakes/raw_http.h"
#include "tests/router/router_fixture.h"

namespace baton::testing {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAreArray;
using ::testing::EndsWith;
using ::testing::HasSubstr;

class OpenAiTest : public RouterTest {
 protected:
  OpenAiTest() { http_options_.emplace(); }
  ~OpenAiTest() override { client_.reset(); }

  void StartWithHttp() {
    StartRouter();
    const std::string address = router_->http_address();
    port_ = std::stoi(address.substr(address.rfind(':') + 1));
    client_ = std::make_unique<httplib::Client>("127.0.0.1", port_);
  }
  httplib::Result Post(const std::string& path, const Json& body) {
    return client_->Post(path, body.dump(), "application/json");
  }
  static Json Completion(const std::string& prompt, int max_tokens) {
    return {{"prompt", prompt}, {"max_tokens", max_tokens}, {"temperature", 0}};
  }
  static std::string Bytes(const std::string& path, const Json& body) {
    const std::string text = body.dump();
    return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
           "Content-Length: " + std::to_string(text.size()) + "\r\n\r\n" + text;
  }

  int port_ = 0;
  std::unique_ptr<httplib::Client> client_;
};

std::vector<Json> EventsOf(const std::string& stream) {
  std::vector<Json> events;
  size_t at = 0;
  for (size_t end = 0; (end = stream.find("\n\n", at)) != std::string::npos; at = end + 2) {
    const std::string data = stream.substr(at, end - at).substr(6);
    events.push_back(data == "[DONE]" ? Json(data) : Json::parse(data));
  }
  EXPECT_EQ(at, stream.size());
  return events;
}

Json ErrorIn(const httplib::Result& answer) { return Json::parse(answer->body).at("error"); }

TEST_F(OpenAiTest, CompletionsGiveTheTokensOfGrpc) {
  AddDecode();
  AddPrefill();
  StartWithHttp();
  Json body = Completion("hello", 10);
  body["baton"] = Json::object();
  const auto answer = Post("/v1/completions", body);
  ASSERT_TRUE(answer);
  ASSERT_EQ(answer->status, 200) << answer->body;
  const Json json = Json::parse(answer->body);
  EXPECT_EQ(json["object"], "text_completion");
  EXPECT_EQ(json["choices"][0]["text"], TextOf(Expected("hello", 10)));
  EXPECT_EQ(json["choices"][0]["finish_reason"], "length");
  EXPECT_THAT(json["baton"]["token_ids"].get<std::vector<int32_t>>(),
              ElementsAreArray(Expected("hello", 10)));
  EXPECT_EQ(json["usage"]["prompt_tokens"], 6);
  EXPECT_EQ(json["usage"]["completion_tokens"], 10);
  EXPECT_EQ(json["id"], "cmpl-" + answer->get_header_value("x-request-id"));
  EXPECT_EQ(Metric("baton_requests_received_total{transport=\"http\""), 1);
  EXPECT_EQ(Metric("baton_requests_received_total{transport=\"grpc\""), 0);
}

TEST_F(OpenAiTest, StreamsEndWithDone) {
  AddDecode();
  StartWithHttp();
  Json body = {{"messages", {{{"role", "user"}, {"content", "hello"}}}},
               {"max_tokens", 5},
               {"stream", true},
               {"stream_options", {{"include_usage", true}}}};
  const auto answer = Post("/v1/chat/completions", body);
  ASSERT_TRUE(answer);
  ASSERT_EQ(answer->status, 200) << answer->body;
  EXPECT_EQ(answer->get_header_value("content-type"), "text/event-stream; charset=utf-8");
  const std::vector<Json> events = EventsOf(answer->body);
  ASSERT_GE(events.size(), 4U);
  EXPECT_EQ(events.back(), "[DONE]");
  EXPECT_EQ(events[events.size() - 2]["usage"]["completion_tokens"], 5);
  EXPECT_EQ(events[events.size() - 3]["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(events[0]["choices"][0]["delta"]["role"], "assistant");
}

TEST_F(OpenAiTest, CompletionsThatDoNotSayHowMuchGetSixteenTokens) {
  AddDecode();
  StartWithHttp();
  Json body = {{"prompt", "hello"}, {"temperature", 0}};
  auto answer = Post("/v1/completions", body);
  ASSERT_TRUE(answer);
  EXPECT_EQ(Json::parse(answer->body)["usage"]["completion_tokens"], 16) << answer->body;
  body["prompt"] = std::string(kContext - 11, 'x');
  answer = Post("/v1/completions", body);
  EXPECT_EQ(Json::parse(answer->body)["usage"]["completion_tokens"], 10) << answer->body;
}

TEST_F(OpenAiTest, SpecialTokensAreAddedOnlyWhereTheyAreWanted) {
  AddDecode();
  StartWithHttp();
  Json body = Completion("hello", 1);
  body["add_special_tokens"] = false;
  EXPECT_EQ(Json::parse(Post("/v1/completions", body)->body)["usage"]["prompt_tokens"], 5);
}

TEST_F(OpenAiTest, UnknownFieldsAreNamedInAHeader) {
  AddDecode();
  StartWithHttp();
  Json body = Completion("hello", 1);
  body["mood"] = "good";
  body["z\r\nx: y"] = 1;
  const auto answer = Post("/v1/completions", body);
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->get_header_value("baton-ignored-fields"), "mood, z??x:?y");
  EXPECT_FALSE(Post("/v1/completions", Completion("hello", 1))->has_header("baton-ignored-fields"));
}

TEST_F(OpenAiTest, RequestIdsComeFromTheHeaderOrTheBody) {
  AddDecode();
  StartWithHttp();
  const httplib::Headers headers = {{"X-Request-Id", "mine-1"}};
  auto answer =
      client_->Post("/v1/completions", headers, Completion("hello", 1).dump(), "application/json");
  EXPECT_EQ(answer->get_header_value("x-request-id"), "mine-1");
  EXPECT_EQ(Json::parse(answer->body)["id"], "cmpl-mine-1");
  answer = client_->Post("/v1/completions", {{"X-Request-Id", std::string(257, 'a')}},
                         Completion("hello", 1).dump(), "application/json");
  EXPECT_EQ(answer->status, 400);
  EXPECT_EQ(ErrorIn(answer)["param"], "request_id");
}

TEST_F(OpenAiTest, AnIdThatCannotStandInAHeaderIsNotSentInOne) {
  AddDecode();
  StartWithHttp();
  Json body = Completion("hello", 1);
  body["request_id"] = "a\x01\r\nb";
  auto answer = Post("/v1/completions", body);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 400);
  EXPECT_EQ(answer->get_header_value("x-request-id"), "a   b");
  RawHttp client(port_);
  std::string text = Bytes("/v1/completions", Completion("hello", 1));
  client.Send(text.insert(text.find("\r\n") + 2, "x-request-id: a b\r\n"));
  EXPECT_THAT(client.ReadTo("\r\n\r\n"),
              AllOf(HasSubstr(" 400 "), HasSubstr("x-request-id: req-")));
}

TEST_F(OpenAiTest, RefusalsHaveTheirStatusAndTheFieldsName) {
  AddDecode();
  StartWithHttp();
  const auto refused = [&](const Json& body) {
    const auto answer = Post("/v1/completions", body);
    return std::to_string(answer->status) + " " + ErrorIn(answer)["param"].dump();
  };
  Json body = Completion("hello", 1);
  body["temperature"] = -1;
  EXPECT_EQ(refused(body), "400 \"temperature\"");
  EXPECT_EQ(refused(Completion("hello", 0)), "400 \"max_tokens\"");
  EXPECT_EQ(refused(Completion("", 1)), "400 \"prompt\"");
  EXPECT_EQ(refused(Completion("hello", 10'000)), "400 \"prompt\"");
  body = Completion("hello", 1);
  body["model"] = "other";
  EXPECT_EQ(refused(body), "404 \"model\"");
  body = Completion("hello", 1);
  body["n"] = 0;
  EXPECT_EQ(refused(body), "400 \"n\"");
  EXPECT_EQ(Metric("baton_request_failure_total{finished_reason=\"rejected\""), 6);
}

TEST_F(OpenAiTest, WhatFailsBeforeTheFirstTokenHasAStatusOfItsOwn) {
  options_.deadlines.no_worker = std::chrono::milliseconds(50);
  AddDecode();
  StartWithHttp();
  decode_.clear();
  Json body = Completion("hello", 4);
  body["stream"] = true;
  ASSERT_TRUE(Eventually([&] { return !router_->ready().ok(); }));
  const auto answer = Post("/v1/completions", body);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 503) << answer->body;
  EXPECT_EQ(ErrorIn(answer)["code"], "no_worker");
  EXPECT_NE(answer->get_header_value("retry-after"), "");
}

TEST_F(OpenAiTest, WhatFailsBehindItIsAnEventAndNoDone) {
  options_.attempts.counted = 1;
  options_.deadlines.request = std::chrono::milliseconds(300);
  AddDecode([](FakeWorkerOptions& worker) { worker.token_delay = std::chrono::milliseconds(20); });
  StartWithHttp();
  Json body = Completion("hello", 400);
  body["stream"] = true;
  const auto answer = Post("/v1/completions", body);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
  const std::vector<Json> events = EventsOf(answer->body);
  ASSERT_GE(events.size(), 2U);
  EXPECT_EQ(events.back()["error"]["type"], "timeout_error") << events.back();
}

TEST_F(OpenAiTest, AClientThatGoesEndsItsRequest) {
  AddDecode([](FakeWorkerOptions& worker) { worker.token_delay = std::chrono::milliseconds(5); });
  StartWithHttp();
  for (const bool stream : {true, false}) {
    Json body = Completion("hello", 400);
    body["stream"] = stream;
    RawHttp client(port_);
    ASSERT_TRUE(client.Send(Bytes("/v1/completions", body)));
    if (stream) {
      EXPECT_THAT(client.ReadTo("data: "), HasSubstr("200 OK"));
    } else {
      ASSERT_TRUE(Eventually([&] { return router_->in_flight() == 1; }));
    }
    client.Close();
    EXPECT_TRUE(Eventually([&] { return router_->in_flight() == 0; }));
  }
  EXPECT_EQ(Metric("baton_request_failure_total{finished_reason=\"abort\""), 2);
}

TEST_F(OpenAiTest, AClientThatReadsNothingEndsSlowAndDisturbsNobody) {
  options_.client_buffer = 8 << 10;
  AddDecode([](FakeWorkerOptions& worker) {
    worker.model = [](const std::vector<int32_t>&) { return int32_t{'a'}; };
    worker.max_model_len = 1 << 24;
    worker.blocks_total = 1 << 20;
  });
  StartWithHttp();
  Json body = Completion("much", 400'000);
  body["stream"] = true;
  RawHttp slow(port_, /*receive_buffer=*/4096);
  ASSERT_TRUE(slow.Send(Bytes("/v1/completions", body)));
  EXPECT_TRUE(Eventually([&] {
    return Metric(
               "baton_request_errors_total{engine=\"0\",model_name=\"tiny\",role=\"router\","
               "code=\"RESOURCE_EXHAUSTED\",reason=\"SLOW_CLIENT\"") == 1;
  }));
  EXPECT_TRUE(Eventually([&] { return router_->in_flight() == 0; }));
  EXPECT_EQ(Post("/v1/completions", Completion("more", 3))->status, 200);
}

TEST_F(OpenAiTest, LongBodiesAreReadOnThePoolAlike) {
  AddDecode();
  StartWithHttp();
  Json body = Completion("hello", 3);
  body["padding"] = std::string(40'000, 'p');
  const auto answer = Post("/v1/completions", body);
  ASSERT_EQ(answer->status, 200) << answer->body;
  EXPECT_EQ(Json::parse(answer->body)["choices"][0]["text"], TextOf(Expected("hello", 3)));
}

TEST_F(OpenAiTest, BodiesForWhichThereIsNeverRoomAreNotRead) {
  options_.max_inflight_bytes = 1000;
  AddDecode();
  StartWithHttp();
  const auto answer = Post("/v1/completions", Completion(std::string(2000, 'x'), 1));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 400) << answer->body;
  EXPECT_EQ(ErrorIn(answer)["code"], "limit_exceeded");
  EXPECT_FALSE(answer->has_header("Retry-After"));
}

TEST_F(OpenAiTest, ModelsAreListedAndDescribed) {
  AddDecode();
  StartWithHttp();
  const Json list = Json::parse(client_->Get("/v1/models")->body);
  EXPECT_EQ(list["object"], "list");
  EXPECT_EQ(list["data"][0]["id"], "tiny");
  EXPECT_EQ(list["data"][0]["max_model_len"], kContext);
  EXPECT_EQ(Json::parse(client_->Get("/v1/models/t%69ny")->body), list["data"][0]);
  const auto other = client_->Get("/v1/models/other");
  EXPECT_EQ(other->status, 404);
  EXPECT_EQ(ErrorIn(other)["code"], "model_not_found");
}

// Processes refuse such a name at their start; a router must not end by it all the same.
TEST_F(OpenAiTest, AModelWhoseNameIsNoUtf8IsListedWithAnotherCharacterThere) {
  options_.served_model_name = "a\xff";
  AddDecode();
  StartWithHttp();
  const auto list = client_->Get("/v1/models");
  ASSERT_TRUE(list);
  EXPECT_EQ(Json::parse(list->body)["data"][0]["id"], "a\uFFFD");
}

TEST_F(OpenAiTest, OtherPathsMethodsAndBodiesAreRefused) {
  AddDecode();
  StartWithHttp();
  EXPECT_EQ(client_->Get("/v1/embeddings")->status, 404);
  EXPECT_EQ(client_->Get("/v1/models/")->status, 404);
  const auto method = client_->Get("/v1/completions");
  EXPECT_EQ(method->status, 405);
  EXPECT_EQ(method->get_header_value("allow"), "POST");
  EXPECT_EQ(client_->Post("/v1/completions", "{}", "text/plain")->status, 415);
  const auto broken = client_->Post("/v1/completions", "{", "application/json");
  EXPECT_EQ(broken->status, 400);
  EXPECT_EQ(ErrorIn(broken)["type"], "invalid_request_error");
}

// Such a path may need no key, and bodies count against the bound of all.
TEST_F(OpenAiTest, BodiesThatNobodyReadsAreNotTaken) {
  AddDecode();
  StartWithHttp();
  for (const char* body : {"Content-Length: 9", "Transfer-Encoding: chunked"}) {
    RawHttp client(port_);
    client.Send(std::string("GET /health HTTP/1.1\r\nHost: localhost\r\n") + body + "\r\n\r\n");
    EXPECT_THAT(client.ReadTo("\r\n\r\n"), HasSubstr(" 413 ")) << body;
  }
}

// Both come from one address.
TEST_F(OpenAiTest, TheBodiesOfOneTenantDoNotKeepOutThoseOfAnother) {
  options_.trust_tenant_header = true;
  options_.max_inflight_bytes = 4000;
  AddDecode();
  StartWithHttp();
  // But for its last byte.
  const auto send = [](RawHttp* client, const std::string& tenant, size_t bytes) {
    std::string body = Completion("hello", 2).dump();
    body.resize(bytes, ' ');
    body.pop_back();
    client->Send(
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "baton-tenant: " +
        tenant + "\r\nContent-Length: " + std::to_string(bytes) + "\r\n\r\n" + body);
  };
  RawHttp greedy(port_);
  send(&greedy, "greedy", 3000);
  // Both threads have read what came before these.
  for (int i = 0; i < 2; ++i) EXPECT_EQ(client_->Get("/health")->status, 200);
  RawHttp modest(port_);
  send(&modest, "modest", 2000);
  EXPECT_THAT(greedy.ReadTo("\r\n\r\n"), HasSubstr(" 503 "));
  modest.Send(" ");
  EXPECT_THAT(modest.ReadTo("\r\n\r\n"), HasSubstr(" 200 "));
}

TEST_F(OpenAiTest, HealthIsThatOfTheRouter) {
  AddDecode();
  StartWithHttp();
  EXPECT_EQ(client_->Get("/health")->status, 200);
  EXPECT_EQ(client_->Head("/health")->status, 200);
  EXPECT_EQ(client_->Head("/v1/completions")->status, 405);
  decode_.clear();
  EXPECT_TRUE(Eventually([&] { return client_->Get("/health")->status == 503; }));
}

TEST_F(OpenAiTest, DrainingLetsStreamsEnd) {
  AddDecode([](FakeWorkerOptions& worker) { worker.token_delay = std::chrono::milliseconds(2); });
  StartWithHttp();
  Json body = Completion("hello", 50);
  body["stream"] = true;
  RawHttp client(port_);
  ASSERT_TRUE(client.Send(Bytes("/v1/completions", body)));
  client.ReadTo("data: ");
  router_->Drain(std::chrono::seconds(10));
  EXPECT_THAT(client.ReadTo("[DONE]"), EndsWith("[DONE]"));
  EXPECT_FALSE(RawHttp(port_).connected());
}

}  // namespace
}  // namespace baton::testing
