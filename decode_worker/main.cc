#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/config/bind.h"
#include "common/config/standard_files.h"
#include "common/transport/grpc_stream.h"
#include "common/worker/handoff.h"
#include "common/worker/worker_process.h"
#include "decode_worker/decode_service.h"
#include "decode_worker/kv_receiver.h"
#include "grpcpp/impl/service_type.h"
#include "prefill_worker/prefill_role.h"

namespace {

// With `prefill`, the services of an elastic worker, which has both roles over one engine.
class DecodeServices final : public baton::RoleServices {
 public:
  DecodeServices(baton::WorkerCore* core, baton::ReceivingSide side,
                 std::unique_ptr<baton::RoleServices> prefill)
      : receiver_(core),
        side_(std::move(side)),
        decode_(baton::MakeDecodeService(core, &receiver_)),
        transfer_(
            baton::MakeKvTransferService(&receiver_, core->identity().tls, side_.pairs.get())),
        prefill_(std::move(prefill)) {
    core->SetHandoff(side_.ways, nullptr);
  }

  std::vector<grpc::Service*> services() override {
    std::vector<grpc::Service*> services = {decode_.get(), transfer_.get()};
    if (prefill_ == nullptr) return services;
    for (grpc::Service* const service : prefill_->services()) services.push_back(service);
    return services;
  }

 private:
  baton::KvReceiver receiver_;
  baton::ReceivingSide side_;
  std::unique_ptr<grpc::Service> decode_;
  std::unique_ptr<grpc::Service> transfer_;
  std::unique_ptr<baton::RoleServices> prefill_;  // null where it only decodes
};

absl::StatusOr<std::unique_ptr<baton::RoleServices>> MakeServices(baton::WorkerCore* core,
                                                                  const baton::WorkerFlags& flags,
                                                                  const baton::TlsOptions& tls) {
  BATON_ASSIGN_OR_RETURN(baton::ReceivingSide side,
                         baton::MakeReceivingSide(baton::TransportOptionsOf(flags, *core),
                                                  &core->clock(), &core->probe()));
  std::unique_ptr<baton::RoleServices> prefill;
  if (flags.roles.elastic) {
    BATON_ASSIGN_OR_RETURN(prefill, baton::MakePrefillRole(core, flags, tls));
  }
  return std::make_unique<DecodeServices>(core, std::move(side), std::move(prefill));
}

}  // namespace

int main(int argc, char** argv) {
  baton::OpenStandardFiles();
  baton::WorkerFlags flags = baton::DefaultDecodeFlags();
  baton::FlagSet set("baton-decode", "decode",
                     "Decode worker: takes KV caches from prefill workers and generates; with "
                     "--elastic it prefills, too.");
  baton::BindDecodeWorker(&set, &flags);
  if (const auto code = set.ParseOrExit(argc, argv)) return *code;
  std::vector<std::string> services = {"baton.worker.v1.DecodeService",
                                       "baton.worker.v1.KvTransferService",
                                       "baton.worker.v1.StatusService"};
  if (flags.roles.elastic) services.push_back("baton.worker.v1.PrefillService");
  return baton::RunWorker({.role = baton::WorkerRole::kDecode,
                           .program = "baton-decode",
                           .service_names = std::move(services),
                           .make_services = MakeServices},
                          flags);
}
