// How connections come to their end while streams on them run.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "baton/worker/v1/prefill.grpc.pb.h"
#include "common/rpc/channel.h"
#include "common/rpc/server.h"
#include "grpcpp/client_context.h"
#include "grpcpp/grpcpp.h"
#include "tests/fakes/eventually.h"

namespace baton {
namespace {

namespace pb = ::baton::worker::v1;
using std::chrono::milliseconds;

// Prefill says one thing and then waits for `release`; any call says whose connection it came over.
class HoldingService final : public pb::PrefillService::CallbackService {
 public:
  grpc::ServerWriteReactor<pb::PrefillResponse>* Prefill(grpc::CallbackServerContext* context,
                                                         const pb::PrefillRequest*) override {
    auto* const stream = new Stream;
    {
      base::MutexLock lock(&mutex_);
      last_peer_ = context->peer();
      if (!holding_) {
        stream->Finish(grpc::Status::OK);
        return stream;
      }
      streams_.insert(stream);
    }
    stream->owner = this;
    stream->StartWrite(&hello_);
    return stream;
  }
  void Hold(bool on) {
    base::MutexLock lock(&mutex_);
    holding_ = on;
  }
  void Release() {
    base::MutexLock lock(&mutex_);
    for (Stream* const stream : streams_) stream->Finish(grpc::Status::OK);
    streams_.clear();
  }
  std::string last_peer() {
    base::MutexLock lock(&mutex_);
    return last_peer_;
  }

 private:
  struct Stream final : grpc::ServerWriteReactor<pb::PrefillResponse> {
    void OnCancel() override {
      if (owner != nullptr) owner->Drop(this);
    }
    void OnDone() override { delete this; }
    HoldingService* owner = nullptr;
  };
  void Drop(Stream* stream) {
    base::MutexLock lock(&mutex_);
    if (streams_.erase(stream) > 0) stream->Finish(grpc::Status::CANCELLED);
  }

  const pb::PrefillResponse hello_;
  base::Mutex mutex_;
  bool holding_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<Stream*> streams_ ABSL_GUARDED_BY(mutex_);
  std::string last_peer_ ABSL_GUARDED_BY(mutex_);
};

struct Held {
  explicit Held(const std::shared_ptr<grpc::Channel>& channel)
      : stub(pb::PrefillService::NewStub(channel)) {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    reader = stub->Prefill(&context, {});
    pb::PrefillResponse response;
    began = reader->Read(&response);
  }
  // Waits for the end.
  grpc::Status End() {
    pb::PrefillResponse response;
    while (reader->Read(&response)) {
    }
    return reader->Finish();
  }
  std::unique_ptr<pb::PrefillService::Stub> stub;
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReader<pb::PrefillResponse>> reader;
  bool began = false;
};

grpc::StatusCode Call(const std::shared_ptr<grpc::Channel>& channel) {
  const auto stub = pb::PrefillService::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  const auto reader = stub->Prefill(&context, {});
  return reader->Finish().error_code();
}

// Two servers, and a channel that knows both and prefers the first.
struct Pair {
  HoldingService first_service, second_service;
  std::unique_ptr<RpcServer> first = *RpcServer::Start({}, {&first_service});
  std::unique_ptr<RpcServer> second = *RpcServer::Start({}, {&second_service});
  std::shared_ptr<grpc::Channel> channel =
      *MakeChannel("ipv4:" + first->address() + "," + second->address(), {});
};

TEST(ConnectionLifeTest, AServerThatGoesSendsClientsToAnotherAndFinishesWhatRuns) {
  Pair pair;
  pair.first_service.Hold(true);
  Held held(pair.channel);
  ASSERT_TRUE(held.began);
  pair.first_service.Hold(false);
  EXPECT_EQ(pair.second_service.last_peer(), "");
  pair.first->BeginShutdown();
  EXPECT_TRUE(Eventually([&] {
    Call(pair.channel);
    return !pair.second_service.last_peer().empty();
  }));
  pair.first_service.Release();
  EXPECT_TRUE(held.End().ok());
  pair.first->Shutdown(std::chrono::seconds(20));
}

// Calls that were on their way at the goodbye end before they began; soon none is lost any more.
TEST(ConnectionLifeTest, CallersOfAServerThatGoesSettleAtAnother) {
  Pair pair;
  std::atomic<bool> stop{false};
  std::atomic<int> good{0}, in_a_row{0}, odd{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      while (!stop) {
        const grpc::StatusCode code = Call(pair.channel);
        in_a_row = code == grpc::StatusCode::OK ? in_a_row + 1 : 0;
        good += code == grpc::StatusCode::OK ? 1 : 0;
        odd += code == grpc::StatusCode::OK || code == grpc::StatusCode::UNAVAILABLE ||
                       code == grpc::StatusCode::CANCELLED
                   ? 0
                   : 1;
      }
    });
  }
  EXPECT_TRUE(Eventually([&] { return good > 100; }));
  pair.first->BeginShutdown();
  EXPECT_TRUE(Eventually([&] { return !pair.second_service.last_peer().empty(); }));
  in_a_row = 0;
  EXPECT_TRUE(Eventually([&] { return in_a_row > 200; }));
  stop = true;
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(odd, 0);
}

TEST(ConnectionLifeTest, WhatDoesNotEndIsCancelledAtTheLast) {
  HoldingService service;
  service.Hold(true);
  auto server = *RpcServer::Start({}, {&service});
  Held held(*MakeChannel(server->address(), {}));
  ASSERT_TRUE(held.began);
  server->BeginShutdown();
  server->BeginShutdown();
  server->Shutdown(milliseconds(0));
  EXPECT_FALSE(held.End().ok());
}

// A stream goes on when its connection is replaced.
void ExpectStreamOutlivesConnection(const RpcServerOptions& options) {
  HoldingService service;
  service.Hold(true);
  auto server = *RpcServer::Start(options, {&service});
  const auto channel = *MakeChannel(server->address(), {});
  Held held(channel);
  ASSERT_TRUE(held.began);
  const std::string old = service.last_peer();
  service.Hold(false);
  EXPECT_TRUE(Eventually(
      [&] { return Call(channel) == grpc::StatusCode::OK && service.last_peer() != old; }));
  service.Release();
  EXPECT_TRUE(held.End().ok());
}

TEST(ConnectionLifeTest, AnOldConnectionIsReplacedAndItsStreamOutlivesIt) {
  ExpectStreamOutlivesConnection({.max_connection_age = milliseconds(50)});
}

TEST(ConnectionLifeTest, TheGraceOfAnOldConnectionEnds) {
  HoldingService service;
  service.Hold(true);
  auto server = *RpcServer::Start(
      {.max_connection_age = milliseconds(20), .max_connection_age_grace = milliseconds(20)},
      {&service});
  Held held(*MakeChannel(server->address(), {}));
  EXPECT_EQ(held.End().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST(ConnectionLifeTest, WithoutABoundOfTheGraceAStreamTakesAsLongAsItDoes) {
  ExpectStreamOutlivesConnection(
      {.max_connection_age = milliseconds(20), .max_connection_age_grace = milliseconds(0)});
}

TEST(ConnectionLifeTest, WithoutAnAgeAConnectionStays) {
  HoldingService service;
  auto server = *RpcServer::Start({}, {&service});
  const auto channel = *MakeChannel(server->address(), {});
  ASSERT_EQ(Call(channel), grpc::StatusCode::OK);
  const std::string peer = service.last_peer();
  for (int i = 0; i < 100; ++i) ASSERT_EQ(Call(channel), grpc::StatusCode::OK);
  EXPECT_EQ(service.last_peer(), peer);
}

}  // namespace
}  // namespace baton
