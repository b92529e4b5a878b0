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

TransportOptions TransportOptionsOf(const WorkerFlags& flags, const WorkerCore& core) {
  const WorkerIdentity& self = core.identity();
  return {.choice = ChoiceOf(flags.handoff.transport),
          .on_gpu = flags.engine.device == DeviceFlag::kCuda,
          .checksum = flags.handoff.checksum,
          .nccl_library = flags.handoff.nccl_library,
          .limits = {},
          .blocks = &core.blocks(),
          .self = {.incarnation = self.incarnation,
                   .shape = self.shape,
                   .model_fingerprint = self.model_fingerprint}};
}

}  // namespace baton
