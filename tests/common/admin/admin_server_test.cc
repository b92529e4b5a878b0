#include "common/admin/admin_server.h"

#include <memory>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "httplib.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

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
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("127.0.0.1:"));
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
  const auto kept = KeepConnections(20, (*server)->port());
  httplib::Client probe("127.0.0.1", (*server)->port());
  probe.set_read_timeout(2);
  const auto health = probe.Get("/healthz");
  ASSERT_TRUE(health);
  EXPECT_EQ(health->status, 200);
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
