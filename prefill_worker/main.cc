#include "common/base/status.h"
#include "common/config/bind.h"
#include "common/worker/handoff.h"
#include "common/worker/worker_process.h"
#include "grpcpp/impl/service_type.h"
#include "prefill_worker/prefill_service.h"

namespace {

class PrefillServices final : public baton::RoleServices {
 public:
  PrefillServices(baton::WorkerCore* core, baton::SendingSide side)
      : side_(std::move(side)),
        prefill_(baton::MakePrefillService(core, side_.transport.get(), side_.warmer)) {
    baton::PairWarmer* const warmer = side_.warmer;
    core->SetHandoff(side_.ways, [warmer] {
      return warmer == nullptr ? std::vector<uint64_t>() : warmer->warm();
    });
  }

  std::vector<grpc::Service*> services() override { return {prefill_.get()}; }

 private:
  baton::SendingSide side_;
  std::unique_ptr<grpc::Service> prefill_;
};

absl::StatusOr<std::unique_ptr<baton::RoleServices>> MakeServices(baton::WorkerCore* core,
                                                                  const baton::WorkerFlags& flags,
                                                                  const baton::TlsOptions& tls) {
  BATON_ASSIGN_OR_RETURN(
      baton::SendingSide side,
      baton::MakeSendingSide(baton::TransportOptionsOf(flags, *core),
                             {.tls = tls, .peer_role = "decode"}, &core->clock(), &core->probe()));
  return std::make_unique<PrefillServices>(core, std::move(side));
}

}  // namespace

int main(int argc, char** argv) {
  baton::WorkerFlags flags = baton::DefaultPrefillFlags();
  baton::FlagSet set("baton-prefill", "prefill",
                     "Prefill worker: computes prompts and hands their KV caches to decode "
                     "workers.");
  baton::BindWorker(&set, &flags);
  if (const auto code = set.ParseOrExit(argc, argv)) return *code;
  return baton::RunWorker(
      {.role = baton::WorkerRole::kPrefill,
       .program = "baton-prefill",
       .service_names = {"baton.worker.v1.PrefillService", "baton.worker.v1.StatusService"},
       .make_services = MakeServices},
      flags);
}
