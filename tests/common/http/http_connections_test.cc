// How long connections live, and how many there may be.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/http/http_server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/eventually.h"
#include "tests/fakes/raw_http.h"

namespace baton {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::string_view kGet = "GET /x HTTP/1.1\r\nHost: h\r\n\r\n";

class HttpConnectionsTest : public testing::Test {
 protected:
  // Answers each request, but for those of /held, which the test does.
  void Start(HttpLimits limits, int threads = 1) {
    auto server = HttpServer::Start({.threads = threads, .limits = limits, .clock = &clock_},
                                    [this](std::shared_ptr<HttpExchange> exchange) {
                                      if (exchange->request().path == "/held") {
                                        base::MutexLock lock(&mutex_);
                                        return held_.push_back(std::move(exchange));
                                      }
                                      exchange->Reply({.status = 200, .body = "ok"});
                                    });
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  size_t held() {
    base::MutexLock lock(&mutex_);
    return held_.size();
  }
  void AnswerHeld() {
    base::MutexLock lock(&mutex_);
    for (const auto& exchange : held_) exchange->Reply({.status = 200, .body = "ok"});
  }
  // A connection whose request is not answered.
  std::unique_ptr<RawHttp> Hold() {
    const size_t before = held();
    auto client = std::make_unique<RawHttp>(server_->port());
    client->Send("GET /held HTTP/1.1\r\nHost: h\r\n\r\n");
    EXPECT_TRUE(Eventually([&] { return held() == before + 1; }));
    return client;
  }
  // One whose body does not come, though the server waits for it.
  std::unique_ptr<RawHttp> HoldBack() {
    auto client = std::make_unique<RawHttp>(server_->port());
    client->Send("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    client->ReadTo("\r\n\r\n");
    return client;
  }

  base::ManualClock clock_;
  base::Mutex mutex_;
  std::vector<std::shared_ptr<HttpExchange>> held_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpConnectionsTest, AHeaderThatDoesNotComeIs408) {
  Start({.header_time = std::chrono::seconds(10)});
  RawHttp client(server_->port());
  client.Send("GET / HTTP/1.1\r\nHo");
  RawHttp idle(server_->port());
  ASSERT_TRUE(Eventually([&] { return server_->counts().connections_open == 2; }));
  // A byte now and then does not help.
  ASSERT_TRUE(Eventually([&] {
    clock_.Advance(std::chrono::seconds(1));
    return !client.Send("s") || server_->counts().answers_by_class[4] > 0;
  }));
  EXPECT_THAT(client.ReadAll(), StartsWith("HTTP/1.1 408 "));
}

TEST_F(HttpConnectionsTest, ABodyThatDoesNotComeIs408) {
  Start({.header_time = std::chrono::seconds(10), .body_time = std::chrono::seconds(60)});
  RawHttp client(server_->port());
  client.Send("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n");
  EXPECT_THAT(client.ReadTo("\r\n\r\n"), HasSubstr("100 Continue"));
  ASSERT_TRUE(Eventually([&] {
    clock_.Advance(std::chrono::seconds(1));
    return server_->counts().answers_by_class[4] == 1;
  }));
  EXPECT_THAT(client.ReadTo("\r\n\r\n"), StartsWith("HTTP/1.1 408 "));
}

TEST_F(HttpConnectionsTest, AnIdleConnectionEnds) {
  Start({.idle_time = std::chrono::seconds(75)});
  RawHttp fresh(server_->port());
  RawHttp used(server_->port());
  used.Send(kGet);
  EXPECT_THAT(used.ReadAnswer(2), StartsWith("HTTP/1.1 200 "));
  ASSERT_TRUE(Eventually([&] { return server_->counts().connections_open == 2; }));
  EXPECT_TRUE(Eventually([&] {
    clock_.Advance(std::chrono::seconds(1));
    return server_->counts().connections_open == 0;
  }));
  EXPECT_TRUE(fresh.IsClosed());
  EXPECT_TRUE(used.IsClosed());
}

TEST_F(HttpConnectionsTest, AnOldConnectionEndsWithItsNextAnswer) {
  Start({.connection_age = std::chrono::seconds(60)});
  RawHttp client(server_->port());
  client.Send(kGet);
  EXPECT_THAT(client.ReadAnswer(2), testing::Not(HasSubstr("Connection: close")));
  clock_.Advance(std::chrono::seconds(60));
  client.Send(kGet);
  EXPECT_THAT(client.ReadAll(),
              testing::AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("Connection: close\r\n")));
}

TEST_F(HttpConnectionsTest, TheLongestIdleGivesWay) {
  Start({.connections = 2});
  RawHttp first(server_->port());
  first.Send(kGet);
  first.ReadAnswer(2);
  RawHttp second(server_->port());
  second.Send(kGet);
  second.ReadAnswer(2);
  RawHttp third(server_->port());
  third.Send(kGet);
  EXPECT_THAT(third.ReadAnswer(2), StartsWith("HTTP/1.1 200 "));
  EXPECT_TRUE(first.IsClosed());
  second.Send(kGet);
  EXPECT_THAT(second.ReadAnswer(2), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpConnectionsTest, WhoHasNotAskedToTheEndGivesWay) {
  Start({.connections = 2});
  RawHttp half(server_->port());
  half.Send("GET /x HTTP/1.1\r\nHo");
  RawHttp other(server_->port());
  other.Send("GET /x HTTP/1.1\r\nHo");
  ASSERT_TRUE(Eventually([&] { return server_->counts().connections_open == 2; }));
  RawHttp whole(server_->port());
  whole.Send(kGet);
  EXPECT_THAT(whole.ReadAnswer(2), StartsWith("HTTP/1.1 200 "));
  EXPECT_TRUE(half.IsClosed());
  // The younger one may still ask.
  other.Send("st: h\r\n\r\n");
  EXPECT_THAT(other.ReadAnswer(2), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpConnectionsTest, WhoHasHadItsLastAnswerGivesWay) {
  Start({.connections = 1});
  RawHttp last(server_->port());
  last.Send("nonsense\r\n\r\n");
  EXPECT_THAT(last.ReadTo("\r\n\r\n"), HasSubstr("Connection: close\r\n"));
  RawHttp next(server_->port());
  next.Send(kGet);
  EXPECT_THAT(next.ReadAnswer(2), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpConnectionsTest, WhoseBodyDoesNotComeGivesWayAndIsTold) {
  Start({.connections = 2});
  const auto first = HoldBack();
  const auto second = HoldBack();
  RawHttp next(server_->port());
  next.Send(kGet);
  EXPECT_THAT(next.ReadAnswer(2), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(first->ReadAll(),
              testing::AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("Retry-After: 1\r\n")));
  // The younger one may still send its own.
  second->Send("hi");
  EXPECT_THAT(second->ReadAnswer(2), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(server_->counts().connections_refused, 0);
}

TEST_F(HttpConnectionsTest, WhoIsIdleGivesWayBeforeWhoSendsABody) {
  Start({.connections = 2});
  const auto sends = HoldBack();
  RawHttp idle(server_->port());
  idle.Send(kGet);
  idle.ReadAnswer(2);
  RawHttp next(server_->port());
  next.Send(kGet);
  EXPECT_THAT(next.ReadAnswer(2), StartsWith("HTTP/1.1 200 "));
  EXPECT_TRUE(idle.IsClosed());
  sends->Send("hi");
  EXPECT_THAT(sends->ReadAnswer(2), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpConnectionsTest, WhereAllAreAnsweredTheNextIsTold) {
  Start({.connections = 1});
  const auto busy = Hold();
  RawHttp next(server_->port());
  next.Send(kGet);
  EXPECT_THAT(next.ReadAll(),
              testing::AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("Retry-After: 1\r\n")));
  EXPECT_EQ(server_->counts().connections_refused, 1);
  AnswerHeld();
  EXPECT_THAT(busy->ReadAnswer(2), StartsWith("HTTP/1.1 200 "));
}

// However long ones and short ones come by turns.
TEST_F(HttpConnectionsTest, ThreadsShareAllConnectionsThatThereMayBe) {
  Start({.connections = 8}, /*threads=*/2);
  std::vector<std::unique_ptr<RawHttp>> busy;
  for (int64_t open = 1; open < 8; ++open) {
    busy.push_back(Hold());
    RawHttp quick(server_->port());
    quick.Send(kGet);
    EXPECT_THAT(quick.ReadAnswer(2), StartsWith("HTTP/1.1 200 ")) << open;
    quick.Close();
    ASSERT_TRUE(Eventually([&] { return server_->counts().connections_open == open; }));
  }
  busy.push_back(Hold());
  EXPECT_EQ(server_->counts().connections_refused, 0);
}

TEST_F(HttpConnectionsTest, ShutdownClosesThePortAndTheIdle) {
  Start({});
  RawHttp idle(server_->port());
  idle.Send(kGet);
  idle.ReadAnswer(2);
  const auto busy = HoldBack();
  RawHttp half(server_->port());
  half.Send("GET /x HTTP/1.1\r\nHo");
  // What was sent before is read.
  RawHttp last(server_->port());
  last.Send(kGet);
  last.ReadAnswer(2);
  server_->BeginShutdown();
  EXPECT_TRUE(idle.IsClosed());
  ASSERT_TRUE(Eventually([&] { return !RawHttp(server_->port()).connected(); }));
  half.Send("st: h\r\n\r\n");
  EXPECT_THAT(half.ReadAll(), StartsWith("HTTP/1.1 200 "));
  busy->Send("hi");
  EXPECT_THAT(busy->ReadAll(),
              testing::AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("Connection: close\r\n")));
}

}  // namespace
}  // namespace baton
