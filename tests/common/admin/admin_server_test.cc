#include "common/admin/admin_server.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "httplib.h"
#include "tests/fakes/eventually.h"
#include "tests/fakes/raw_http.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// The status of /healthz, as a probe of Kubernetes with a limit of 2 s sees it; 0: no answer.
int HealthOf(const AdminServer& server) {
  httplib::Client probe("127.0.0.1", server.port());
  probe.set_read_timeout(2);
  const auto health = probe.Get("/healthz");
  return health ? health->status : 0;
}

AdminOptions Options() {
  return {.metrics = [] { return std::string("m 1\n"); },
          .ready = [] { return absl::OkStatus(); },
          .healthy = {}};
}

TEST(AdminServer, ServesThePageAndTheProbes) {
  const auto server = AdminServer::Start(Options());
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_EQ((*server)->address(), "127.0.0.1:" + std::to_string((*server)->port()));
  httplib::Client client("127.0.0.1", (*server)->port());
  const auto metrics = client.Get("/metrics");
  ASSERT_TRUE(metrics);
  EXPECT_EQ(metrics->body, "m 1\n");
  EXPECT_THAT(metrics->get_header_value("Content-Type"), HasSubstr("version=0.0.4"));
  EXPECT_EQ(client.Get("/healthz")->status, 200);
  EXPECT_EQ(client.Get("/readyz")->status, 200);
  EXPECT_EQ(client.Get("/nothing")->status, 404);
  const auto head = client.Head("/metrics");
  EXPECT_EQ(head->status, 200);
  EXPECT_EQ(head->get_header_value("Content-Length"), "4");
}

TEST(AdminServer, RefusesWhatDoesNotOnlyRead) {
  const auto server = AdminServer::Start(Options());
  ASSERT_TRUE(server.ok());
  httplib::Client client("127.0.0.1", (*server)->port());
  const auto post = client.Post("/metrics", "x", "text/plain");
  ASSERT_TRUE(post);
  EXPECT_EQ(post->status, 405);
  EXPECT_EQ(post->get_header_value("Allow"), "GET, HEAD");
  // Nobody has to wait for bytes that nobody wants.
  RawHttp body((*server)->port());
  body.Send("GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n");
  EXPECT_THAT(body.ReadTo("\r\n\r\n"), StartsWith("HTTP/1.1 413 "));
}

TEST(AdminServer, NotReadyIs503WithTheReason) {
  AdminOptions options = Options();
  options.ready = [] { return absl::UnavailableError("draining"); };
  options.healthy = [] { return absl::InternalError("stalled"); };
  const auto server = AdminServer::Start(std::move(options));
  ASSERT_TRUE(server.ok());
  httplib::Client client("127.0.0.1", (*server)->port());
  const auto ready = client.Get("/readyz");
  EXPECT_EQ(ready->status, 503);
  EXPECT_EQ(ready->body, "draining\n");
  EXPECT_EQ(client.Get("/healthz")->status, 503);
}

TEST(AdminServer, RefusesAPortInUseAndAnAddressOfOthers) {
  const auto first = AdminServer::Start(Options());
  ASSERT_TRUE(first.ok());
  AdminOptions same = Options();
  same.port = (*first)->port();
  const auto second = AdminServer::Start(std::move(same));
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()),
              AllOf(HasSubstr("127.0.0.1:"), HasSubstr("--admin-port")));
  AdminOptions foreign = Options();
  foreign.host = "192.0.2.1";
  EXPECT_FALSE(AdminServer::Start(std::move(foreign)).ok());
}

TEST(AdminServer, GivesThePortBackWhenDestroyed) {
  auto first = AdminServer::Start(Options());
  ASSERT_TRUE(first.ok());
  AdminOptions again = Options();
  again.port = (*first)->port();
  first->reset();
  EXPECT_TRUE(AdminServer::Start(std::move(again)).ok());
}

// The policy of a page that a browser found under `host`.
std::string PolicyUnder(const std::string& host, std::optional<AskedPort> asked) {
  AdminOptions options = Options();
  options.host = "0.0.0.0";
  options.pages = {{"/", "text/html", [] { return std::string("<p>"); }}};
  options.pages_ask = std::move(asked);
  const auto server = AdminServer::Start(std::move(options));
  EXPECT_TRUE(server.ok());
  httplib::Client client("127.0.0.1", (*server)->port());
  const auto page = client.Get("/", {{"Host", host}});
  return page ? page->get_header_value("Content-Security-Policy") : "no answer";
}

TEST(AdminServer, PagesMayAskTheOtherPortOfTheirHostOnly) {
  const AskedPort port{.scheme = "https", .port = 8000};
  EXPECT_THAT(PolicyUnder("gpu-1.example:8080", port),
              HasSubstr("connect-src 'self' https://gpu-1.example:8000;"));
  EXPECT_THAT(PolicyUnder("[::1]:8080", port), HasSubstr("connect-src 'self' https://*:8000;"));
  EXPECT_THAT(PolicyUnder("gpu-1.example:8080", std::nullopt), HasSubstr("connect-src 'self';"));
}

TEST(AdminServer, AHostCannotAddToThePolicy) {
  const AskedPort port{.scheme = "http", .port = 8000};
  for (const char* host : {"a;script-src *", "a b", "*", "[", "[*]", "'self'", ""}) {
    EXPECT_THAT(PolicyUnder(host, port), HasSubstr("connect-src 'self';")) << host;
  }
}

TEST(AdminServer, OnLoopbackOnlyLocalNamesAreAnswered) {
  AdminOptions options = Options();
  options.serves_host = [](const std::string& host) { return host == "baton.example.org"; };
  const auto server = AdminServer::Start(std::move(options));
  ASSERT_TRUE(server.ok()) << server.status();
  httplib::Client client("127.0.0.1", (*server)->port());
  for (const char* host : {"localhost:8080", "127.0.0.1", "baton.example.org"}) {
    EXPECT_EQ(client.Get("/metrics", {{"Host", host}})->status, 200) << host;
  }
  const auto refused = client.Get("/metrics", {{"Host", "evil.example"}});
  EXPECT_EQ(refused->status, 403);
  EXPECT_THAT(refused->body, HasSubstr("'evil.example'"));
}

// Connections that stay open and idle after an answer.
std::vector<std::unique_ptr<httplib::Client>> KeepConnections(size_t count, int port) {
  std::vector<std::unique_ptr<httplib::Client>> kept;
  for (size_t i = 0; i < count; ++i) {
    kept.push_back(std::make_unique<httplib::Client>("127.0.0.1", port));
    kept.back()->set_keep_alive(true);
    kept.back()->set_read_timeout(2);
    EXPECT_TRUE(kept.back()->Get("/metrics")) << "connection " << i;
  }
  return kept;
}

TEST(AdminServer, IdleKeptConnectionsDelayNoProbe) {
  const auto server = AdminServer::Start(Options());
  ASSERT_TRUE(server.ok());
  auto kept = KeepConnections(20, (*server)->port());
  EXPECT_EQ(HealthOf(**server), 200);
  // Also when they are all that there may be.
  kept = KeepConnections(AdminServer::kMaxConnections, (*server)->port());
  EXPECT_EQ(HealthOf(**server), 200);
}

TEST(AdminServer, RequestsThatDoNotComeToTheirEndDelayNoProbe) {
  const auto server = AdminServer::Start(Options());
  ASSERT_TRUE(server.ok());
  std::vector<std::unique_ptr<RawHttp>> halves;
  for (size_t i = 0; i < 2 * AdminServer::kMaxConnections; ++i) {
    halves.push_back(std::make_unique<RawHttp>((*server)->port()));
    halves.back()->Send("GET /metrics HTTP/1.1\r\nX: ");
  }
  EXPECT_EQ(HealthOf(**server), 200);
}

TEST(AdminServer, SlowScrapesDelayNoProbe) {
  std::mutex gate;
  std::unique_lock closed(gate);
  AdminOptions options = Options();
  options.metrics = [&gate] {
    const std::lock_guard wait(gate);
    return std::string("m 1\n");
  };
  const auto server = AdminServer::Start(std::move(options));
  ASSERT_TRUE(server.ok());
  std::vector<std::unique_ptr<RawHttp>> scrapers;
  for (size_t i = 0; i < 2 * AdminServer::kMaxConnections; ++i) {
    scrapers.push_back(std::make_unique<RawHttp>((*server)->port()));
    scrapers.back()->Send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    if (i % 16 == 0) {
      EXPECT_EQ(HealthOf(**server), 200) << i << " scrapes";
    }
  }
  EXPECT_EQ(HealthOf(**server), 200);
  // Those for which there is no room are told so.
  EXPECT_THAT(scrapers.back()->ReadTo("\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("Retry-After: 1\r\n")));
  closed.unlock();
  EXPECT_THAT(scrapers.front()->ReadAnswer(4),
              AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("m 1")));
}

TEST(AdminServer, AHeaderWithoutEndIsRefused) {
  const auto server = AdminServer::Start(Options());
  ASSERT_TRUE(server.ok());
  RawHttp client((*server)->port());
  client.Send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n");
  for (int i = 0; i < 16; ++i) client.Send("X: " + std::string(8000, 'a') + "\r\n");
  EXPECT_THAT(client.ReadTo("\r\n\r\n"), StartsWith("HTTP/1.1 431 "));
}

TEST(AdminServer, ARequestThatTricklesDoesNotHoldTheEnd) {
  auto server = AdminServer::Start(Options());
  ASSERT_TRUE(server.ok());
  RawHttp client((*server)->port());
  ASSERT_TRUE(client.Send("GET /metrics HTTP/1.1\r\nX: "));
  // It is served, not only in the kernel's backlog.
  ASSERT_EQ(HealthOf(**server), 200);
  std::atomic<bool> ended{false};
  // It goes on for a time that the test can wait for where the server does not end.
  std::thread trickles([&] {
    const auto most = std::chrono::steady_clock::now() + std::chrono::seconds(12);
    while (!ended && std::chrono::steady_clock::now() < most && client.Send("a")) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    client.Close();
  });
  const auto begin = std::chrono::steady_clock::now();
  server->reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(3));
  ended = true;
  trickles.join();
}

TEST(AdminServer, AnswersThatAreUnderWayAreGivenBeforeTheEnd) {
  std::mutex gate;
  std::unique_lock closed(gate);
  std::atomic<bool> asked{false};
  AdminOptions options = Options();
  options.metrics = [&] {
    asked = true;
    const std::lock_guard wait(gate);
    return std::string("m 1\n");
  };
  auto server = AdminServer::Start(std::move(options));
  ASSERT_TRUE(server.ok());
  RawHttp client((*server)->port());
  client.Send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_TRUE(Eventually([&] { return asked.load(); }));
  const int port = (*server)->port();
  std::thread ends([&] { server->reset(); });
  EXPECT_TRUE(Eventually([&] { return !RawHttp(port).connected(); }));
  closed.unlock();
  EXPECT_THAT(client.ReadAll(), AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("m 1")));
  ends.join();
}

TEST(AdminServer, ConnectionBeyondTheBoundIsServedWhenOneEnds) {
  const auto server = AdminServer::Start(Options());
  ASSERT_TRUE(server.ok());
  auto kept = KeepConnections(AdminServer::kMaxConnections, (*server)->port());
  httplib::Client probe("127.0.0.1", (*server)->port());
  int status = 0;
  std::thread waits([&] {
    if (const auto health = probe.Get("/healthz")) status = health->status;
  });
  kept.front().reset();
  waits.join();
  EXPECT_EQ(status, 200);
}

}  // namespace
}  // namespace baton
