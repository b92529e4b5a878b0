// What the server makes of requests: whole answers, limits, refusals.
#include "common/http/http_server.h"

#include <memory>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/eventually.h"
#include "tests/fakes/raw_http.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
using ::testing::StartsWith;

class HttpServerTest : public testing::Test {
 protected:
  // Answers each request with its method, path and body.
  void Start(HttpServerOptions options = {}) {
    options.clock = &clock_;
    auto server = HttpServer::Start(std::move(options), [](std::shared_ptr<HttpExchange> exchange) {
      const HttpRequest& request = exchange->request();
      exchange->Reply({.status = 200,
                       .headers = {{"X-Line", "a\r\nInjected: 1"}, {"X-Bell", "\a\x7f"}},
                       .body = request.method + " " + request.path + " " + request.body});
    });
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  // The whole answer of a connection that ends with it.
  std::string Ask(const std::string& text) {
    RawHttp client(server_->port());
    EXPECT_TRUE(client.Send(text));
    return client.ReadAll();
  }

  base::SteadyClock clock_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, AnswersAndKeepsTheConnection) {
  Start();
  RawHttp client(server_->port());
  for (int i = 0; i < 3; ++i) {
    client.Send("POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi");
    EXPECT_THAT(client.ReadAnswer(10),
                AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), HasSubstr("Content-Length: 10\r\n"),
                      HasSubstr("Date: "), testing::EndsWith("\r\n\r\nPOST /x hi")));
  }
  EXPECT_EQ(server_->counts().connections_open, 1);
  EXPECT_EQ(server_->counts().answers_by_class[2], 3);
}

TEST_F(HttpServerTest, AValueCannotBecomeAHeader) {
  Start();
  EXPECT_THAT(
      Ask("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"),
      AllOf(HasSubstr("X-Line: a  Injected: 1\r\n"), Not(HasSubstr("\a")), Not(HasSubstr("\x7f"))));
}

TEST_F(HttpServerTest, AnswersPipelinedRequestsInTheirOrder) {
  Start();
  std::string all;
  for (const char* path : {"/1", "/2", "/3"}) {
    all += std::string("GET ") + path + " HTTP/1.1\r\nHost: h\r\n\r\n";
  }
  all += "GET /4 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
  const std::string answer = Ask(all);
  size_t at = 0;
  for (const char* body : {"GET /1 ", "GET /2 ", "GET /3 ", "GET /4 "}) {
    at = answer.find(body, at);
    ASSERT_NE(at, std::string::npos) << body << answer;
  }
}

TEST_F(HttpServerTest, HeadHasNoBodyAndItsLength) {
  Start();
  EXPECT_THAT(Ask("HEAD /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"),
              AllOf(HasSubstr("Content-Length: 8\r\n"), testing::EndsWith("\r\n\r\n")));
}

TEST_F(HttpServerTest, WhatCannotBeReadIsAnsweredForItself) {
  Start();
  // The head and the version of the request before mean nothing for it.
  const std::string answers =
      Ask("HEAD /x HTTP/1.0\r\nConnection: keep-alive\r\n\r\nnonsense\r\n\r\n");
  EXPECT_THAT(answers, AllOf(StartsWith("HTTP/1.0 200 "), HasSubstr("HTTP/1.1 400 "),
                             HasSubstr("the request cannot be read")));
}

TEST_F(HttpServerTest, AnOldClientIsAnsweredAndLeft) {
  Start();
  EXPECT_THAT(Ask("GET /x HTTP/1.0\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.0 200"), testing::EndsWith("GET /x ")));
}

TEST_F(HttpServerTest, TellsToGoOnWithTheBody) {
  Start();
  RawHttp client(server_->port());
  client.Send("POST /x HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(client.ReadTo("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Send("hi");
  EXPECT_THAT(client.ReadAnswer(10), HasSubstr("POST /x hi"));
}

TEST_F(HttpServerTest, WhatIsRefusedGetsAnAnswerAndTheEnd) {
  Start({.limits = {.header_bytes = 1024, .body_bytes = 100}});
  EXPECT_THAT(Ask("nonsense\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 400 "), HasSubstr("Connection: close")));
  EXPECT_THAT(Ask("GET / HTTP/1.1\r\nHost: h\r\nX: " + std::string(4096, 'x')),
              AllOf(StartsWith("HTTP/1.1 431 "), HasSubstr("1024")));
  EXPECT_THAT(Ask("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n" +
                  std::string(100'000, 'x')),
              AllOf(StartsWith("HTTP/1.1 413 "), HasSubstr("100 bytes")));
  EXPECT_THAT(Ask("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n" +
                  std::string(101, 'x')),
              StartsWith("HTTP/1.1 413 "));
  EXPECT_EQ(server_->counts().answers_by_class[4], 4);
  EXPECT_THAT(server_->counts().refusals_by_status,
              ElementsAre(Pair(400, 1), Pair(413, 2), Pair(431, 1)));
}

TEST_F(HttpServerTest, AdmitRefusesBeforeTheBodyCame) {
  HttpServerOptions options;
  std::optional<size_t> announced;
  options.admit = [&](const HttpRequest& head,
                      std::optional<size_t> bytes) -> std::optional<HttpReply> {
    announced = bytes;
    if (head.Find("Authorization") != nullptr) return std::nullopt;
    return HttpReply{.status = 401, .headers = {{"WWW-Authenticate", "Bearer"}}, .body = "who?"};
  };
  Start(std::move(options));
  // The body is never sent, and with Expect: never asked for.
  EXPECT_THAT(
      Ask("POST /x HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 7\r\n\r\n"),
      AllOf(StartsWith("HTTP/1.1 401 "), HasSubstr("who?"), Not(HasSubstr("100 Cont"))));
  EXPECT_EQ(announced, 7u);
  // Without a body the connection is as good as before.
  RawHttp client(server_->port());
  client.Send("GET /x HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_THAT(client.ReadAnswer(4), StartsWith("HTTP/1.1 401 "));
  client.Send("GET /x HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer k\r\n\r\n");
  EXPECT_THAT(client.ReadAnswer(7), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(server_->counts().refusals_by_status, ElementsAre(Pair(401, 2)));
}

TEST_F(HttpServerTest, AllBodiesTogetherHaveABound) {
  Start({.limits = {.receiving_bytes = 1000}});
  RawHttp first(server_->port());
  first.Send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 900\r\n\r\n" + std::string(899, 'x'));
  RawHttp second(server_->port());
  second.Send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 899\r\n\r\n" + std::string(898, 'x'));
  // Whichever came second.
  ASSERT_TRUE(Eventually([&] { return server_->counts().answers_by_class[5] == 1; }));
  first.Send("x");
  second.Send("x");
  const std::string answers = first.ReadTo("\r\n\r\n") + second.ReadTo("\r\n\r\n");
  EXPECT_THAT(answers, AllOf(HasSubstr("HTTP/1.1 200 "), HasSubstr("HTTP/1.1 503 "),
                             HasSubstr("Retry-After: 1\r\n")));
  // What was counted is given back.
  EXPECT_THAT(Ask("POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 999\r\n\r\n" +
                  std::string(999, 'x')),
              StartsWith("HTTP/1.1 200 "));
}

// It takes memory as a body does.
TEST_F(HttpServerTest, AHeaderCountsWhileItsBodyDoesNotCome) {
  Start({.limits = {.receiving_bytes = 1000}});
  const std::string head =
      "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\nX: " + std::string(600, 'x') + "\r\n\r\n";
  RawHttp first(server_->port());
  first.Send(head);
  RawHttp second(server_->port());
  second.Send(head);
  // Whichever came second.
  ASSERT_TRUE(Eventually([&] { return server_->counts().answers_by_class[5] == 1; }));
  // With its body it is the handler's.
  EXPECT_THAT(Ask("POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 2\r\nX: " +
                  std::string(600, 'x') + "\r\n\r\nhi"),
              StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpServerTest, WhoHasMostOfAllBodiesMakesRoomForOthers) {
  HttpServerOptions options{.limits = {.receiving_bytes = 1200}};
  options.client_of = [](const HttpRequest& head) { return *head.Find("Who"); };
  Start(std::move(options));
  const auto head = [](const std::string& who) {
    return "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 500\r\nWho: " + who + "\r\n\r\n";
  };
  RawHttp greedy(server_->port());
  greedy.Send(head("greedy") + std::string(450, 'x'));
  RawHttp again(server_->port());
  again.Send(head("greedy") + std::string(499, 'x'));
  RawHttp modest(server_->port());
  modest.Send(head("modest") + std::string(499, 'x'));
  // Whichever came in which order.
  ASSERT_TRUE(Eventually([&] { return server_->counts().answers_by_class[5] == 1; }));
  modest.Send("x");
  EXPECT_THAT(modest.ReadTo("\r\n\r\n"), StartsWith("HTTP/1.1 200 "));
  greedy.Send(std::string(50, 'x'));
  again.Send("x");
  EXPECT_THAT(greedy.ReadTo("\r\n\r\n") + again.ReadTo("\r\n\r\n"),
              AllOf(HasSubstr("HTTP/1.1 200 "), HasSubstr("HTTP/1.1 503 "),
                    HasSubstr("Retry-After: 1\r\n")));
}

TEST_F(HttpServerTest, PagesMayAskFromOriginsThatAreAllowed) {
  HttpServerOptions options;
  options.allow_origin = [](const std::string& origin, const std::string& host) {
    return origin == "http://" + host + ":8080";
  };
  Start(std::move(options));
  const std::string preflight =
      "OPTIONS /v1 HTTP/1.1\r\nHost: h\r\nConnection: close\r\nAccess-Control-Request-Method: "
      "POST\r\nAccess-Control-Request-Headers: authorization\r\nOrigin: ";
  EXPECT_THAT(Ask(preflight + "http://h:8080\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 204 "),
                    HasSubstr("Access-Control-Allow-Origin: http://h:8080\r\n"),
                    HasSubstr("Access-Control-Allow-Headers: authorization\r\n")));
  EXPECT_THAT(Ask(preflight + "http://evil:8080\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 403 "), Not(HasSubstr("Allow-Origin"))));
  EXPECT_THAT(
      Ask("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nOrigin: http://h:8080\r\n\r\n"),
      AllOf(StartsWith("HTTP/1.1 200 "),
            HasSubstr("Access-Control-Allow-Origin: http://h:8080\r\n"),
            HasSubstr("Vary: Origin\r\n")));
}

TEST_F(HttpServerTest, RefusesAPortInUseAndPlainTextForOthers) {
  Start();
  const auto second =
      HttpServer::Start({.port = server_->port(), .clock = &clock_}, [](const auto&) {});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("--http-port"));
  const auto open = HttpServer::Start({.host = "0.0.0.0", .clock = &clock_}, [](const auto&) {});
  EXPECT_EQ(open.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace baton
