#pragma once

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>

#include "common/rpc/server.h"
#include "common/transport/grpc_stream.h"
#include "common/transport/pair/ipc_communicator.h"
#include "common/transport/pair/nccl_communicator.h"
#include "common/transport/pair/pair_acceptor.h"
#include "common/transport/pair/pair_parcel.h"
#include "common/transport/pair/pair_transport.h"
#include "tests/common/transport/push_fakes.h"
#include "tests/fakes/eventually.h"
#include "tests/fakes/fake_nccl/fake_nccl_access.h"

namespace baton {

// Counts what transports tell.
struct CountingTransportProbe final : TransportProbe {
  void PushOpened(PushWay way) override { ++pushes[static_cast<size_t>(way)]; }
  void PairHappened(PairEvent event) override { ++events[static_cast<size_t>(event)]; }
  void PairBytes(int64_t count) override { bytes += count; }
  int of(PairEvent event) const { return events[static_cast<size_t>(event)]; }
  int of(PushWay way) const { return pushes[static_cast<size_t>(way)]; }
  std::array<std::atomic<int>, 8> events{};
  std::array<std::atomic<int>, 4> pushes{};
  std::atomic<int64_t> bytes{0};
};

struct PairFixtureOptions {
  uint64_t incarnation = 7;  // of the receiver
  KvShape shape{.dtype = "float32", .block_size = 16, .layers = 2, .kv_heads = 3, .head_dim = 8};
  std::string sender_fingerprint = "fp";
  int32_t sender_ranks = 1;
  bool sender_checksum = true, receiver_checksum = true;
  TlsOptions control_tls;  // of the sender's control streams
  bool ipc = false;        // in place of the fake NCCL
  PairLimits limits = SmallLimits();
  const base::Clock* clock = nullptr;  // in place of the steady one

  static PairLimits SmallLimits() {
    PairLimits limits;
    // Blocks of the tests are smaller, equal and larger.
    limits.parcel_bytes = kParcelHeaderBytes + (int64_t{3} << 19);
    limits.transfer = std::chrono::seconds(2);
    limits.abort = std::chrono::seconds(2);
    return limits;
  }
};

// Both ends of the transport by pairs in one process, over the fake library and a real server.
class PairFixture final : public Fixture {
 public:
  PairFixture(KvInboxes* inboxes, const PairFixtureOptions& options) : options_(options) {
    const auto library = NcclLibrary::Load(FakeNcclPath(), "--kv-transport grpc");
    EXPECT_TRUE(library.ok()) << library.status();
    const auto parts = [&](bool checksum) {
      PairParts made{.checksum = checksum, .limits = options.limits};
      made.memory = *MakeHostPairMemory(made.limits.buffers, made.limits.parcel_bytes);
      made.communicators =
          options.ipc ? MakeIpcCommunicators(made.memory.get()) : MakeNcclCommunicators(*library);
      return made;
    };
    PairHello self{
        .incarnation = options.incarnation, .shape = options.shape, .model_fingerprint = "fp"};
    acceptor_ =
        *PairAcceptor::Start(parts(options.receiver_checksum), self, clock_, &receiver_probe);
    service_ = MakeKvTransferService(inboxes, false, acceptor_.get());
    server_ = *RpcServer::Start({}, {service_.get()});
    self.incarnation = 3;
    self.model_fingerprint = options.sender_fingerprint;
    self.shape.tensor_parallel = options.sender_ranks;
    transport_ =
        *PairTransport::Start(parts(options.sender_checksum), self,
                              std::make_unique<GrpcStreamTransport>(ChannelOptions(), clock_),
                              {.tls = options.control_tls}, clock_, &sender_probe);
  }
  ~PairFixture() override {
    transport_.reset();
    server_->Shutdown(std::chrono::milliseconds(100));
  }

  KvTransport& transport() override { return *transport_; }
  std::string address() override { return server_->address(); }
  PairTransport& pairs() { return *transport_; }
  RpcServer& server() { return *server_; }
  void EndSender() { transport_.reset(); }

  // False when the pair does not get warm in time.
  bool Warm() {
    transport_->Warm(address(), options_.incarnation);
    return Eventually([this] { return !transport_->warm().empty(); }, std::chrono::seconds(20));
  }

  CountingTransportProbe sender_probe, receiver_probe;

 private:
  const PairFixtureOptions options_;
  base::SteadyClock steady_clock_;
  const base::Clock* const clock_ = options_.clock == nullptr ? &steady_clock_ : options_.clock;
  std::unique_ptr<PairAcceptor> acceptor_;
  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<RpcServer> server_;
  std::unique_ptr<PairTransport> transport_;
};

}  // namespace baton
