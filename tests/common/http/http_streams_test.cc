// Streamed answers, and what becomes of them when the client does not take them or goes.
#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "common/base/mutex.h"
#include "common/http/http_server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/eventually.h"
#include "tests/fakes/raw_http.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::string_view kAsk = "GET /x HTTP/1.1\r\nHost: h\r\n\r\n";

class HttpStreamsTest : public testing::Test {
 protected:
  void Start(HttpLimits limits = {}) {
    auto server = HttpServer::Start({.limits = limits, .clock = &clock_},
                                    [this](std::shared_ptr<HttpExchange> exchange) {
                                      base::MutexLock lock(&mutex_);
                                      exchange_ = std::move(exchange);
                                    });
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  // The exchange of the next request.
  std::shared_ptr<HttpExchange> Next() {
    std::shared_ptr<HttpExchange> next;
    EXPECT_TRUE(Eventually([&] {
      base::MutexLock lock(&mutex_);
      next = std::exchange(exchange_, nullptr);
      return next != nullptr;
    }));
    return next;
  }

  base::ManualClock clock_;
  base::Mutex mutex_;
  std::shared_ptr<HttpExchange> exchange_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpStreamsTest, WritesChunksAndKeepsTheConnection) {
  Start();
  RawHttp client(server_->port());
  client.Send(kAsk);
  auto exchange = Next();
  exchange->Begin(200, {{"Content-Type", "text/event-stream"}});
  EXPECT_TRUE(exchange->Write("data: 1\n\n"));
  EXPECT_THAT(client.ReadTo("\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 200 OK"), HasSubstr("Transfer-Encoding: chunked\r\n")));
  EXPECT_EQ(client.ReadTo("\n\n\r\n"), "9\r\ndata: 1\n\n\r\n");
  exchange->Write("data: 2\n\n");
  EXPECT_EQ(client.ReadTo("\n\n\r\n"), "9\r\ndata: 2\n\n\r\n");
  exchange->End();
  EXPECT_EQ(client.ReadTo("\r\n\r\n"), "0\r\n\r\n");
  client.Send(kAsk);
  Next()->Reply({.status = 200, .body = "again"});
  EXPECT_THAT(client.ReadAnswer(5), HasSubstr("again"));
}

TEST_F(HttpStreamsTest, AnOldClientReadsToTheEnd) {
  Start();
  RawHttp client(server_->port());
  client.Send("GET /x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  auto exchange = Next();
  exchange->Begin(200, {});
  exchange->Write("all of it");
  exchange->End();
  EXPECT_THAT(client.ReadAll(), testing::EndsWith("\r\n\r\nall of it"));
}

TEST_F(HttpStreamsTest, AClientThatGoesIsNoticedWhileNothingIsSent) {
  Start();
  auto client = std::make_unique<RawHttp>(server_->port());
  client->Send(kAsk);
  auto exchange = Next();
  std::atomic<int> gone = 0;
  exchange->OnGone([&] { ++gone; });
  exchange->Begin(200, {});
  exchange->Write("x");
  client->ReadTo("x");
  client.reset();
  ASSERT_TRUE(Eventually([&] { return gone == 1; }));
  EXPECT_TRUE(exchange->Write("lost"));
  exchange->End();
  EXPECT_EQ(server_->counts().connections_open, 0);
}

// More than the server reads ahead, so that it does not come to the end that lies behind.
TEST_F(HttpStreamsTest, AClientThatGoesIsNoticedBehindWhatItSentAhead) {
  Start();
  const std::string ahead =
      "POST /y HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n" + std::string(100'000, 'x');
  RawHttp patient(server_->port());
  ASSERT_TRUE(patient.Send(std::string(kAsk) + ahead));
  std::atomic<int> lost = 0;
  const auto awaited = Next();
  awaited->OnGone([&] { ++lost; });
  for (const bool half : {false, true}) {
    RawHttp client(server_->port());
    ASSERT_TRUE(client.Send(std::string(kAsk) + ahead));
    std::atomic<int> gone = 0;
    const auto exchange = Next();
    exchange->OnGone([&] { ++gone; });
    half ? client.CloseWriting() : client.Close();
    EXPECT_TRUE(Eventually([&] { return gone == 1; })) << half;
  }
  EXPECT_EQ(lost, 0);
  awaited->Reply({.status = 200, .body = "ok"});
  EXPECT_THAT(patient.ReadAnswer(2), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(Next()->request().body.size(), 100'000u);
}

TEST_F(HttpStreamsTest, AClientThatDoesNotReadFillsItsBufferOnly) {
  Start({.slow_client = std::chrono::seconds(30), .write_buffer_bytes = 1 << 20});
  RawHttp client(server_->port(), 4096);
  client.Send(kAsk);
  auto exchange = Next();
  std::atomic<bool> gone = false;
  exchange->OnGone([&] { gone = true; });
  exchange->Begin(200, {});
  int written = 0;
  while (written < 1000 && exchange->Write(std::string(64 << 10, 'x'))) ++written;
  EXPECT_LT(written, 1000);
  EXPECT_TRUE(exchange->StalledSince());
  EXPECT_FALSE(gone);
  // The handler's time to end it comes first.
  base::Duration longest{};
  EXPECT_TRUE(Eventually([&] {
    const auto since = exchange->StalledSince();
    if (since) longest = std::max(longest, clock_.Now() - *since);
    clock_.Advance(std::chrono::milliseconds(100));
    return gone.load();
  }));
  EXPECT_GE(longest, std::chrono::seconds(30));
}

TEST_F(HttpStreamsTest, AClientThatDoesNotTakeTheRestIsCutOff) {
  Start({.slow_client = std::chrono::seconds(30)});
  RawHttp client(server_->port(), 4096);
  client.Send(kAsk);
  Next()->Reply({.status = 200, .body = std::string(8 << 20, 'x')});
  ASSERT_TRUE(Eventually([&] { return server_->counts().answers_by_class[2] == 1; }));
  EXPECT_TRUE(Eventually([&] {
    clock_.Advance(std::chrono::seconds(1));
    return server_->counts().connections_open == 0;
  }));
  EXPECT_LT(client.ReadAll().size(), size_t{8} << 20);
}

// However it makes progress, so that nobody holds a buffer for hours.
TEST_F(HttpStreamsTest, AStreamThatHasEndedIsTakenInTimeOrCutOff) {
  // A short time for headers, so that the server looks at its clock often.
  Start({.header_time = std::chrono::milliseconds(20),
         .slow_client = std::chrono::seconds(30),
         .write_buffer_bytes = 32 << 20});
  RawHttp client(server_->port());
  client.Send(kAsk);
  auto exchange = Next();
  exchange->Begin(200, {});
  ASSERT_TRUE(exchange->Write(std::string(16 << 20, 'x')));
  ASSERT_FALSE(client.ReadTo("\r\n\r\n").empty());
  exchange->End();
  size_t taken = 0;
  const base::Instant ended = clock_.Now();
  EXPECT_TRUE(Eventually([&] {
    taken += client.Take(64 << 10);
    clock_.Advance(std::chrono::seconds(1));
    return server_->counts().connections_open == 0;
  }));
  EXPECT_LT(taken, size_t{16} << 20);
  EXPECT_GE(clock_.Now() - ended, std::chrono::seconds(30));
}

TEST_F(HttpStreamsTest, AbortDoesNotWaitForTheClient) {
  Start({.write_buffer_bytes = 32 << 20});
  RawHttp client(server_->port(), 4096);
  client.Send(kAsk);
  auto exchange = Next();
  exchange->Begin(200, {});
  ASSERT_TRUE(exchange->Write(std::string(16 << 20, 'x')));
  ASSERT_FALSE(client.ReadTo("\r\n\r\n").empty());
  exchange->Abort();
  EXPECT_TRUE(Eventually([&] { return server_->counts().connections_open == 0; }));
}

TEST_F(HttpStreamsTest, AbortIsABrokenAnswer) {
  Start();
  RawHttp client(server_->port());
  client.Send(kAsk);
  auto exchange = Next();
  exchange->Begin(200, {});
  exchange->Write("part");
  client.ReadTo("part");
  exchange->Abort();
  EXPECT_THAT(client.ReadAll(), testing::Not(HasSubstr("0\r\n\r\n")));
}

TEST_F(HttpStreamsTest, OneThatNobodyAnswersIs500) {
  Start();
  RawHttp client(server_->port());
  client.Send(kAsk);
  Next().reset();
  EXPECT_THAT(client.ReadTo("\r\n\r\n"), StartsWith("HTTP/1.1 500 "));
}

TEST_F(HttpStreamsTest, RequestsThatFollowWaitForTheAnswer) {
  Start({.header_bytes = 1024});
  RawHttp client(server_->port());
  std::string many;
  for (int i = 0; i < 500; ++i) many += kAsk;
  client.Send(many);
  for (int i = 0; i < 500; ++i) {
    Next()->Reply({.status = 200, .body = "ok"});
    ASSERT_THAT(client.ReadAnswer(2), StartsWith("HTTP/1.1 200 ")) << i;
  }
}

TEST_F(HttpStreamsTest, AnExchangeOutlivesItsServer) {
  Start();
  RawHttp client(server_->port());
  client.Send(kAsk);
  auto exchange = Next();
  std::atomic<int> gone = 0;
  exchange->OnGone([&] { ++gone; });
  server_.reset();
  EXPECT_EQ(gone, 1);
  exchange->Begin(200, {});
  EXPECT_TRUE(exchange->Write("x"));
  exchange->End();
}

}  // namespace
}  // namespace baton
