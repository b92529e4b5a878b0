#include "common/transport/transport_factory.h"

#include <optional>
#include <utility>

#include "common/base/status.h"
#include "common/transport/grpc_stream.h"
#include "spdlog/spdlog.h"

namespace baton {
namespace {

absl::StatusOr<std::unique_ptr<PairMemory>> MakeMemory(const TransportOptions& options) {
  if (options.on_gpu) {
    return absl::UnimplementedError(
        "this build has no CUDA; use --kv-transport grpc, or a build with preset cuda");
  }
  return MakeHostPairMemory(options.limits.slots, options.limits.chunk_bytes);
}

// The library and memory of the NCCL transport; empty when pushes go by messages only.
absl::StatusOr<std::optional<NcclParts>> MakeNccl(const TransportOptions& options) {
  if (options.choice == TransportChoice::kGrpc) return std::nullopt;
  if (options.choice == TransportChoice::kCudaIpc) {
    return absl::UnimplementedError(
        "--kv-transport cuda_ipc moves KV between GPUs of one host, and this build has no CUDA; "
        "use --kv-transport grpc, or a build with preset cuda");
  }
  const bool automatic = options.choice == TransportChoice::kAuto;
  if (!options.on_gpu && options.nccl_library.empty()) {
    if (automatic) return std::nullopt;
    return absl::FailedPreconditionError(
        "--kv-transport nccl moves KV of GPUs, and this worker computes on the CPU; use "
        "--kv-transport grpc, or name a library that moves host memory with --nccl-library");
  }
  auto library = NcclLibrary::Load(options.nccl_library);
  absl::StatusOr<std::unique_ptr<PairMemory>> memory =
      library.ok() ? MakeMemory(options) : library.status();
  if (!memory.ok()) {
    if (!automatic) return memory.status();
    spdlog::warn("KV goes by gRPC: {}", std::string(memory.status().message()));
    return std::nullopt;
  }
  spdlog::info("NCCL {} from {}; its traffic is clear text, for trusted networks",
               NcclLibrary::VersionName((*library)->version()), (*library)->path());
  return NcclParts{.library = *std::move(library),
                   .memory = *std::move(memory),
                   .checksum = options.checksum,
                   .limits = options.limits};
}

}  // namespace

absl::StatusOr<SendingSide> MakeSendingSide(TransportOptions options, ChannelOptions channel,
                                            const base::Clock* clock, TransportProbe* probe) {
  BATON_ASSIGN_OR_RETURN(std::optional<NcclParts> nccl, MakeNccl(options));
  SendingSide side;
  auto messages = std::make_unique<GrpcStreamTransport>(channel, clock, options.blocks);
  if (!nccl) {
    side.transport = std::move(messages);
    return side;
  }
  BATON_ASSIGN_OR_RETURN(
      auto transport, NcclTransport::Start(*std::move(nccl), std::move(options.self),
                                           std::move(messages), std::move(channel), clock, probe));
  side.warmer = transport.get();
  side.transport = std::move(transport);
  side.ways = {"nccl"};
  return side;
}

absl::StatusOr<ReceivingSide> MakeReceivingSide(TransportOptions options, const base::Clock* clock,
                                                TransportProbe* probe) {
  BATON_ASSIGN_OR_RETURN(std::optional<NcclParts> nccl, MakeNccl(options));
  ReceivingSide side;
  if (!nccl) return side;
  BATON_ASSIGN_OR_RETURN(
      side.nccl, NcclAcceptor::Start(*std::move(nccl), std::move(options.self), clock, probe));
  side.ways = {"nccl"};
  return side;
}

}  // namespace baton
