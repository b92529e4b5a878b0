#include "prefill_worker/prefill_role.h"

#include <utility>

#include "common/base/status.h"
#include "common/worker/handoff.h"
#include "grpcpp/impl/service_type.h"
#include "prefill_worker/prefill_service.h"

namespace baton {
namespace {

class PrefillServices final : public RoleServices {
 public:
  PrefillServices(WorkerCore* core, SendingSide side)
      : side_(std::move(side)),
        prefill_(MakePrefillService(core, side_.transport.get(), side_.warmer)) {
    if (core->elastic() != nullptr) return;  // no ways beside messages
    PairWarmer* const warmer = side_.warmer;
    core->SetHandoff(side_.ways, [warmer] {
      return warmer == nullptr ? std::vector<uint64_t>() : warmer->warm();
    });
  }

  std::vector<grpc::Service*> services() override { return {prefill_.get()}; }

 private:
  SendingSide side_;
  std::unique_ptr<grpc::Service> prefill_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RoleServices>> MakePrefillRole(WorkerCore* core,
                                                              const WorkerFlags& flags,
                                                              const TlsOptions& tls) {
  BATON_ASSIGN_OR_RETURN(SendingSide side, MakeSendingSide(TransportOptionsOf(flags, *core),
                                                           {.tls = tls, .peer_role = "decode"},
                                                           &core->clock(), &core->probe()));
  return std::make_unique<PrefillServices>(core, std::move(side));
}

}  // namespace baton
