#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/rpc/channel.h"
#include "common/transport/block_access.h"
#include "common/transport/kv_transport.h"
#include "common/transport/pair/pair_acceptor.h"
#include "common/transport/pair/pair_transport.h"
#include "common/transport/transport_probe.h"

namespace baton {

enum class TransportChoice { kAuto, kGrpc, kNccl, kCudaIpc };

struct TransportOptions {
  TransportChoice choice = TransportChoice::kAuto;
  bool on_gpu = false;       // where this worker's blocks lie
  bool checksum = true;      // of what moves between devices
  std::string nccl_library;  // a file; "" = the loader's own
  PairLimits limits;
  const BlockAccess* blocks = &HostBlocks();  // outlives what is made
  PairHello self;                             // this worker
};

// What a prefill worker sends with.
struct SendingSide {
  std::unique_ptr<KvTransport> transport;
  PairWarmer* warmer = nullptr;   // part of `transport`, if it has one
  std::vector<std::string> ways;  // beside messages: "nccl"
};
// What a decode worker receives with, beside messages.
struct ReceivingSide {
  std::unique_ptr<PairAcceptor> pairs;  // null without pairs
  std::vector<std::string> ways;
};

// How the host reaches blocks of a worker that computes on GPUs; those of others are HostBlocks().
absl::StatusOr<std::unique_ptr<BlockAccess>> MakeDeviceBlocks();

// The one file that knows which transports this build has. A way that was asked for by name and
// cannot be is an error that says why and what to do; kAuto takes what there is. `clock` and
// `probe` outlive what is made.
absl::StatusOr<SendingSide> MakeSendingSide(TransportOptions options, ChannelOptions channel,
                                            const base::Clock* clock, TransportProbe* probe);
absl::StatusOr<ReceivingSide> MakeReceivingSide(TransportOptions options, const base::Clock* clock,
                                                TransportProbe* probe);

}  // namespace baton
