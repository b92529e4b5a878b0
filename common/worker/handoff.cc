#include "common/worker/handoff.h"

namespace baton {
namespace {

TransportChoice ChoiceOf(KvTransportFlag flag) {
  switch (flag) {
    case KvTransportFlag::kAuto:
      return TransportChoice::kAuto;
    case KvTransportFlag::kGrpc:
      return TransportChoice::kGrpc;
    case KvTransportFlag::kNccl:
      return TransportChoice::kNccl;
    case KvTransportFlag::kCudaIpc:
      break;
  }
  return TransportChoice::kCudaIpc;
}

}  // namespace

TransportOptions TransportOptionsOf(const WorkerFlags& flags) {
  TransportOptions options;
  options.choice = ChoiceOf(flags.handoff.transport);
  // Pairs lead one way, and elastic workers send both ways.
  if (flags.roles.elastic) options.choice = TransportChoice::kGrpc;
  options.on_gpu = flags.engine.device == DeviceFlag::kCuda;
  options.checksum = flags.handoff.checksum;
  options.nccl_library = flags.handoff.nccl_library;
  return options;
}

TransportOptions TransportOptionsOf(const WorkerFlags& flags, const WorkerCore& core) {
  const WorkerIdentity& self = core.identity();
  TransportOptions options = TransportOptionsOf(flags);
  options.blocks = &core.blocks();
  options.self = {.incarnation = self.incarnation,
                  .shape = self.shape,
                  .model_fingerprint = self.model_fingerprint};
  return options;
}

}  // namespace baton
