#include "common/transport/transport_factory.h"

#include <optional>
#include <utility>

#include "common/base/status.h"
#include "common/transport/grpc_stream.h"
#include "common/transport/pair/ipc_communicator.h"
#include "common/transport/pair/nccl_communicator.h"
#include "spdlog/spdlog.h"

#if BATON_HAS_CUDA
#include "common/transport/pair/cuda_pair_memory.h"
#endif

namespace baton {
namespace {

constexpr char kWithoutNccl[] = "--kv-transport grpc";

#if BATON_HAS_CUDA
// The device on which rank 0 computes, among those that CUDA_VISIBLE_DEVICES shows.
constexpr int kDevice = 0;
#else
absl::Status NoCuda() {
  return absl::UnimplementedError(
      "the blocks of this worker are in a GPU, and this build has no CUDA; build with preset cuda");
}
#endif

absl::StatusOr<std::unique_ptr<PairMemory>> MakeMemory(const TransportOptions& options) {
#if BATON_HAS_CUDA
  if (options.on_gpu) {
    return MakeCudaPairMemory(kDevice, options.limits.buffers, options.limits.parcel_bytes,
                              options.self.shape.tensor_parallel > 1);
  }
#else
  if (options.on_gpu) return NoCuda();
#endif
  return MakeHostPairMemory(options.limits.buffers, options.limits.parcel_bytes);
}

// The way that the options ask for; kGrpc means that blocks go by messages only.
absl::StatusOr<TransportChoice> Choose(const TransportOptions& options) {
  const bool nccl_here = options.on_gpu || !options.nccl_library.empty();
  if (options.choice == TransportChoice::kAuto) {
    return nccl_here ? TransportChoice::kNccl : TransportChoice::kGrpc;
  }
  if (options.choice == TransportChoice::kNccl && !nccl_here) {
    return absl::FailedPreconditionError(
        "--kv-transport nccl moves KV of GPUs, and this worker computes on the CPU; use "
        "--kv-transport grpc, or name a library that moves host memory with --nccl-library");
  }
  return options.choice;
}

absl::StatusOr<PairParts> MakeParts(const TransportOptions& options, TransportChoice choice) {
  PairParts parts{.checksum = options.checksum, .limits = options.limits};
  std::shared_ptr<const NcclLibrary> library;
  if (choice == TransportChoice::kNccl) {
    BATON_ASSIGN_OR_RETURN(library, NcclLibrary::Load(options.nccl_library, kWithoutNccl));
  }
  BATON_ASSIGN_OR_RETURN(parts.memory, MakeMemory(options));
  if (choice == TransportChoice::kCudaIpc) {
    parts.communicators = MakeIpcCommunicators(parts.memory.get());
    spdlog::info("KV caches move by cuda_ipc between workers of this host and user");
    return parts;
  }
  spdlog::info("NCCL {} from {}; its traffic is clear text, for trusted networks",
               NcclLibrary::VersionName(library->version()), library->path());
  parts.communicators = MakeNcclCommunicators(std::move(library));
  return parts;
}

// Empty when pushes go by messages only.
absl::StatusOr<std::optional<PairParts>> MakePairs(const TransportOptions& options) {
  BATON_ASSIGN_OR_RETURN(const TransportChoice choice, Choose(options));
  if (choice == TransportChoice::kGrpc) return std::nullopt;
  absl::StatusOr<PairParts> parts = MakeParts(options, choice);
  if (parts.ok()) return std::optional<PairParts>(*std::move(parts));
  if (options.choice != TransportChoice::kAuto) return parts.status();
  spdlog::warn("KV caches move by gRPC, NCCL is not used: {}",
               std::string(parts.status().message()));
  return std::nullopt;
}

}  // namespace

absl::StatusOr<std::unique_ptr<BlockAccess>> MakeDeviceBlocks() {
#if BATON_HAS_CUDA
  return MakeCudaBlocks(kDevice);
#else
  return NoCuda();
#endif
}

absl::Status CheckTransport(const TransportOptions& options) {
  BATON_ASSIGN_OR_RETURN(const TransportChoice choice, Choose(options));
  if (choice != TransportChoice::kNccl || options.choice == TransportChoice::kAuto) {
    return absl::OkStatus();
  }
  return NcclLibrary::Load(options.nccl_library, kWithoutNccl).status();
}

absl::StatusOr<SendingSide> MakeSendingSide(TransportOptions options, ChannelOptions channel,
                                            const base::Clock* clock, TransportProbe* probe) {
  BATON_ASSIGN_OR_RETURN(std::optional<PairParts> parts, MakePairs(options));
  SendingSide side;
  if (!parts) {
    side.transport = std::make_unique<GrpcStreamTransport>(channel, clock, options.blocks, probe);
    return side;
  }
  // The probe hears of every push from the pairs.
  auto messages = std::make_unique<GrpcStreamTransport>(channel, clock, options.blocks);
  const std::string way = parts->communicators->way();
  BATON_ASSIGN_OR_RETURN(
      auto transport, PairTransport::Start(*std::move(parts), std::move(options.self),
                                           std::move(messages), std::move(channel), clock, probe));
  side.warmer = transport.get();
  side.transport = std::move(transport);
  side.ways = {way};
  return side;
}

absl::StatusOr<ReceivingSide> MakeReceivingSide(TransportOptions options, const base::Clock* clock,
                                                TransportProbe* probe) {
  BATON_ASSIGN_OR_RETURN(std::optional<PairParts> parts, MakePairs(options));
  ReceivingSide side;
  if (!parts) return side;
  const std::string way = parts->communicators->way();
  BATON_ASSIGN_OR_RETURN(
      side.pairs, PairAcceptor::Start(*std::move(parts), std::move(options.self), clock, probe));
  side.ways = {way};
  return side;
}

}  // namespace baton
