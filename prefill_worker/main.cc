#include "common/config/bind.h"
#include "common/transport/grpc_stream.h"
#include "common/worker/worker_process.h"
#include "grpcpp/impl/service_type.h"
#include "prefill_worker/prefill_service.h"

namespace {

class PrefillServices final : public baton::RoleServices {
 public:
  PrefillServices(baton::WorkerCore* core, const baton::TlsOptions& tls)
      : transport_({.tls = tls, .peer_role = "decode"}, &core->clock()),
        prefill_(baton::MakePrefillService(core, &transport_)) {}

  std::vector<grpc::Service*> services() override { return {prefill_.get()}; }

 private:
  baton::GrpcStreamTransport transport_;
  std::unique_ptr<grpc::Service> prefill_;
};

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
       .make_services = [](baton::WorkerCore* core,
                           const baton::TlsOptions& tls) -> std::unique_ptr<baton::RoleServices> {
         return std::make_unique<PrefillServices>(core, tls);
       }},
      flags);
}
