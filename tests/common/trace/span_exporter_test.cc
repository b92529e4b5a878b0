#include "common/trace/span_exporter.h"

#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "httplib.h"
#include "nlohmann/json.hpp"
#include "tests/fakes/eventually.h"
#include "tests/fakes/loopback_listener.h"

namespace baton {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A collector on loopback that answers as it is told and keeps what it took.
class Collector final {
 public:
  using Answer = std::function<void(int post, httplib::Response*)>;

  explicit Collector(Answer answer = {}) : answer_(std::move(answer)) {
    server_.Post("/v1/traces",
                 [this](const httplib::Request& request, httplib::Response& response) {
                   int post = 0;
                   {
                     base::MutexLock lock(&mutex_);
                     post = ++posts_;
                     bodies_.push_back(request.body);
                     type_ = request.get_header_value("Content-Type");
                     host_ = request.get_header_value("Host");
                     changed_.NotifyAll();
                   }
                   response.status = 200;
                   if (answer_) answer_(post, &response);
                 });
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
  }
  ~Collector() {
    while (!server_.is_running()) std::this_thread::yield();
    server_.stop();
    thread_.join();
  }

  OtlpTarget target(const std::string& host = "127.0.0.1") const {
    return {"http://" + host + ":" + std::to_string(port_), "/v1/traces"};
  }

  void WaitForPosts(int count) {
    base::MutexLock lock(&mutex_);
    while (posts_ < count) changed_.Wait(&mutex_);
  }
  std::vector<std::string> bodies() {
    base::MutexLock lock(&mutex_);
    return bodies_;
  }
  std::string type() {
    base::MutexLock lock(&mutex_);
    return type_;
  }
  std::string host() {
    base::MutexLock lock(&mutex_);
    return host_;
  }

 private:
  const Answer answer_;
  httplib::Server server_;
  int port_ = 0;
  std::thread thread_;
  base::Mutex mutex_;
  base::CondVar changed_;
  int posts_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> bodies_ ABSL_GUARDED_BY(mutex_);
  std::string type_ ABSL_GUARDED_BY(mutex_);
  std::string host_ ABSL_GUARDED_BY(mutex_);
};

std::unique_ptr<SpanTree> Tree(const std::string& name, int spans = 1) {
  static const base::ManualClock clock;
  auto tree = std::make_unique<SpanTree>(TraceContext{.trace_low = 1, .sampled = true}, name,
                                         SpanKind::kServer, clock.Now(), clock);
  for (int i = 1; i < spans; ++i) tree->Open(SpanTree::kRoot, "stage", clock.Now());
  return tree;
}

// Spans leave at once and failures are forgotten at once, so that tests need not wait.
ExportLimits Quick() {
  return {.linger = base::Duration::zero(),
          .deadline = seconds(20),
          .first_backoff = milliseconds(1),
          .last_backoff = milliseconds(2)};
}

std::vector<std::string> NamesIn(const std::string& body) {
  std::vector<std::string> names;
  const auto request = nlohmann::json::parse(body);
  for (const auto& span : request["resourceSpans"][0]["scopeSpans"][0]["spans"]) {
    names.push_back(span["name"]);
  }
  return names;
}

TEST(SpanExporter, ReachesAnIpv6AddressThatHasLetters) {
  Collector collector;
  const OtlpTarget target = collector.target("[::ffff:127.0.0.1]");
  SpanExporter exporter(target, {}, Quick());
  exporter.Submit(Tree("a"));
  collector.WaitForPosts(1);
  EXPECT_EQ("http://" + collector.host(), target.origin);
}

TEST(SpanExporter, PostsWhatItWasGivenAsJson) {
  Collector collector;
  SpanExporter exporter(collector.target(), {{"service.name", std::string("s")}}, Quick());
  exporter.Submit(Tree("a", 3));
  exporter.Stop(seconds(20));
  EXPECT_EQ(exporter.exported(), 3);
  ASSERT_EQ(collector.bodies().size(), 1u);
  EXPECT_THAT(NamesIn(collector.bodies()[0]), ::testing::ElementsAre("a", "stage", "stage"));
  EXPECT_EQ(collector.type(), "application/json");
}

TEST(SpanExporter, WhatComesMeanwhileGoesTogetherUpToABatch) {
  base::Mutex gate;
  gate.Lock();
  Collector collector([&](int post, httplib::Response*) {
    if (post == 1) base::MutexLock wait(&gate);
  });
  ExportLimits limits = Quick();
  limits.batch_spans = 4;
  SpanExporter exporter(collector.target(), {}, limits);
  exporter.Submit(Tree("first"));
  collector.WaitForPosts(1);
  for (const char* name : {"a", "b", "c"}) exporter.Submit(Tree(name, 2));
  gate.Unlock();
  exporter.Stop(seconds(20));
  ASSERT_EQ(collector.bodies().size(), 3u);
  EXPECT_THAT(NamesIn(collector.bodies()[1]), ::testing::ElementsAre("a", "stage", "b", "stage"));
  EXPECT_THAT(NamesIn(collector.bodies()[2]), ::testing::ElementsAre("c", "stage"));
  EXPECT_EQ(exporter.exported(), 7);
}

TEST(SpanExporter, BeyondTheQueueSpansAreCountedAndGoneAndNobodyWaits) {
  base::Mutex gate;
  gate.Lock();
  Collector slow([&](int, httplib::Response*) { base::MutexLock wait(&gate); });
  ExportLimits limits = Quick();
  limits.queue_spans = 4;
  SpanExporter exporter(slow.target(), {}, limits);
  exporter.Submit(Tree("on its way"));
  slow.WaitForPosts(1);
  for (int i = 0; i < 3; ++i) exporter.Submit(Tree("waits or is dropped", 2));
  EXPECT_EQ(exporter.dropped(SpanDrop::kQueueFull), 2);
  gate.Unlock();
  exporter.Stop(seconds(20));
  EXPECT_EQ(exporter.exported(), 5);
}

TEST(SpanExporter, ACollectorWithoutTimeIsAskedAgain) {
  Collector busy([](int post, httplib::Response* response) {
    if (post == 1) {
      response->status = 429;
      response->set_header("Retry-After", "0");
    } else if (post == 2) {
      response->status = 503;
    }
  });
  SpanExporter exporter(busy.target(), {}, Quick());
  exporter.Submit(Tree("a"));
  busy.WaitForPosts(3);
  exporter.Stop(seconds(20));
  EXPECT_EQ(exporter.exported(), 1);
  const std::vector<std::string> bodies = busy.bodies();
  ASSERT_EQ(bodies.size(), 3u);
  EXPECT_EQ(bodies[0], bodies[2]);
}

TEST(SpanExporter, AfterSoManyTriesABatchIsGivenUpAndTheNextOneTried) {
  Collector busy([](int post, httplib::Response* response) {
    if (post <= 2) response->status = 503;
  });
  ExportLimits limits = Quick();
  limits.attempts = 2;
  SpanExporter exporter(busy.target(), {}, limits);
  exporter.Submit(Tree("lost", 2));
  busy.WaitForPosts(2);
  exporter.Submit(Tree("taken"));
  busy.WaitForPosts(3);
  exporter.Stop(seconds(20));
  EXPECT_EQ(exporter.dropped(SpanDrop::kUnreachable), 2);
  EXPECT_EQ(exporter.exported(), 1);
}

TEST(SpanExporter, WhatTheCollectorRefusesIsNotSentAgain) {
  Collector strict([](int post, httplib::Response* response) {
    if (post == 1) response->status = 400;
    if (post == 2) {
      response->set_content(R"({"partialSuccess":{"rejectedSpans":"1"}})", "application/json");
    }
  });
  SpanExporter exporter(strict.target(), {}, Quick());
  exporter.Submit(Tree("a", 2));
  strict.WaitForPosts(1);
  exporter.Submit(Tree("b", 3));
  strict.WaitForPosts(2);
  exporter.Stop(seconds(20));
  EXPECT_EQ(strict.bodies().size(), 2u);
  EXPECT_EQ(exporter.dropped(SpanDrop::kRejected), 3);
  EXPECT_EQ(exporter.exported(), 2);
}

TEST(SpanExporter, WithoutACollectorSpansAreCountedAsLost) {
  ExportLimits limits = Quick();
  limits.attempts = 1;
  SpanExporter exporter({"http://127.0.0.1:1", "/v1/traces"}, {}, limits);
  exporter.Submit(Tree("a", 2));
  exporter.Stop(seconds(20));
  EXPECT_EQ(exporter.exported(), 0);
  EXPECT_EQ(exporter.dropped(SpanDrop::kUnreachable) + exporter.dropped(SpanDrop::kShutdown), 2);
}

// A collector whose answer comes byte by byte and never ends.
class Dripping final {
 public:
  Dripping() : listener_(testing::ListenOnLoopback(1)), thread_([this] { Serve(); }) {}
  ~Dripping() {
    stop_ = true;
    shutdown(listener_.socket, SHUT_RDWR);
    thread_.join();
    close(listener_.socket);
  }

  OtlpTarget target() const {
    return {"http://127.0.0.1:" + std::to_string(listener_.port), "/v1/traces"};
  }

 private:
  void Serve() {
    while (!stop_) {
      const int peer = accept(listener_.socket, nullptr, nullptr);
      if (peer < 0) continue;
      std::string_view drop = "HTTP/1.1 200 OK\r\nX-Drip: ";
      while (!stop_ && send(peer, drop.data(), drop.size(), MSG_NOSIGNAL) > 0) {
        drop = "a";
        std::this_thread::sleep_for(milliseconds(5));
      }
      close(peer);
    }
  }

  std::atomic<bool> stop_{false};
  const testing::LoopbackListener listener_;
  std::thread thread_;
};

TEST(SpanExporter, ACollectorThatSendsAByteNowAndThenHoldsUpNobodyForEver) {
  Dripping dripping;
  ExportLimits limits = Quick();
  limits.deadline = milliseconds(50);
  limits.attempts = 2;
  SpanExporter exporter(dripping.target(), {}, limits);
  exporter.Submit(Tree("a", 2));
  EXPECT_TRUE(Eventually([&] { return exporter.dropped(SpanDrop::kUnreachable) == 2; }));
}

TEST(SpanExporter, ItEndsThoughItsCollectorNeverAnswers) {
  base::Mutex gate;
  gate.Lock();
  Collector silent([&](int, httplib::Response*) { base::MutexLock wait(&gate); });
  SpanExporter exporter(silent.target(), {}, Quick());
  exporter.Submit(Tree("on its way", 2));
  silent.WaitForPosts(1);
  exporter.Submit(Tree("behind it", 3));
  exporter.Stop(milliseconds(20));
  EXPECT_EQ(exporter.exported(), 0);
  exporter.Submit(Tree("too late"));
  while (exporter.dropped(SpanDrop::kShutdown) != 6) std::this_thread::yield();
  gate.Unlock();
}

TEST(SpanExporter, WhatWaitsForABatchIsSentWhenTheProcessEnds) {
  Collector collector;
  ExportLimits limits = Quick();
  limits.linger = seconds(3600);
  SpanExporter exporter(collector.target(), {}, limits);
  exporter.Submit(Tree("a"));
  exporter.Submit(Tree("b"));
  exporter.Stop(seconds(20));
  ASSERT_EQ(collector.bodies().size(), 1u);
  EXPECT_THAT(NamesIn(collector.bodies()[0]), ::testing::ElementsAre("a", "b"));
}

}  // namespace
}  // namespace baton
