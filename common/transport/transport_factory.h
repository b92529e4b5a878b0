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

// The way that KV is asked to travel; kAuto takes the fastest that this worker has.
enum class TransportChoice { kAuto, kGrpc, kNccl, kCudaIpc };

// What the transports of a worker are made from.
struct TransportOptions {
  TransportChoice choice = TransportChoice::kAuto;
  bool on_gpu = false;       // this worker's blocks lie in GPUs
  bool checksum = true;      // compare checksums of what moves between devices
  std::string nccl_library;  // a file; empty means that the loader finds it
  PairLimits limits;
  const BlockAccess* blocks = &HostBlocks();  // outlives what is made
  PairHello self;                             // this worker
};

// What a prefill worker sends with.
struct SendingSide {
  std::unique_ptr<KvTransport> transport;
  PairWarmer* warmer = nullptr;   // part of `transport`; null without pairs
  std::vector<std::string> ways;  // that KV travels beside messages: "nccl", "cuda_ipc"
};
// What a decode worker receives with, beside messages.
struct ReceivingSide {
  std::unique_ptr<PairAcceptor> pairs;  // null without pairs
  std::vector<std::string> ways;
};

// How the host reaches the blocks of a worker that computes on GPUs. Other workers use
// HostBlocks().
absl::StatusOr<std::unique_ptr<BlockAccess>> MakeDeviceBlocks();

// Whether the way that is asked for can be had as far as that shows before a model is loaded: of
// the options only those are read that no model decides.
absl::Status CheckTransport(const TransportOptions& options);

// Only this file knows which transports this build has. A way that was asked for by name and cannot
// be had is an error that says why and what to do; kAuto takes what there is. `clock` and `probe`
// outlive what is made.
absl::StatusOr<SendingSide> MakeSendingSide(TransportOptions options, ChannelOptions channel,
                                            const base::Clock* clock, TransportProbe* probe);
absl::StatusOr<ReceivingSide> MakeReceivingSide(TransportOptions options, const base::Clock* clock,
                                                TransportProbe* probe);

}  // namespace baton
