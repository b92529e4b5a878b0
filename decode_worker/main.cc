#include "common/base/status.h"
#include "common/config/bind.h"
#include "common/transport/grpc_stream.h"
#include "common/worker/handoff.h"
#include "common/worker/worker_process.h"
#include "decode_worker/decode_service.h"
#include "decode_worker/kv_receiver.h"
#include "grpcpp/impl/service_type.h"

namespace {

class DecodeServices final : public baton::RoleServices {
 public:
  DecodeServices(baton::WorkerCore* core, baton::ReceivingSide side)
      : receiver_(core),
        side_(std::move(side)),
        decode_(baton::MakeDecodeService(core, &receiver_)),
        transfer_(
            baton::MakeKvTransferService(&receiver_, core->identity().tls, side_.pairs.get())) {
    core->SetHandoff(side_.ways, nullptr);
  }

  std::vector<grpc::Service*> services() override { return {decode_.get(), transfer_.get()}; }

 private:
  baton::KvReceiver receiver_;
  baton::ReceivingSide side_;
  std::unique_ptr<grpc::Service> decode_;
  std::unique_ptr<grpc::Service> transfer_;
};

absl::StatusOr<std::unique_ptr<baton::RoleServices>> MakeServices(baton::WorkerCore* core,
                                                                  const baton::WorkerFlags& flags,
                                                                  const baton::TlsOptions&) {
  BATON_ASSIGN_OR_RETURN(baton::ReceivingSide side,
                         baton::MakeReceivingSide(baton::TransportOptionsOf(flags, *core),
                                                  &core->clock(), &core->probe()));
  return std::make_unique<DecodeServices>(core, std::move(side));
}

}  // namespace

int main(int argc, char** argv) {
  baton::WorkerFlags flags = baton::DefaultDecodeFlags();
  baton::FlagSet set("baton-decode", "decode",
                     "Decode worker: takes KV caches from prefill workers and generates.");
  baton::BindWorker(&set, &flags);
  if (const auto code = set.ParseOrExit(argc, argv)) return *code;
  return baton::RunWorker(
      {.role = baton::WorkerRole::kDecode,
       .program = "baton-decode",
       .service_names = {"baton.worker.v1.DecodeService", "baton.worker.v1.KvTransferService",
                         "baton.worker.v1.StatusService"},
       .make_services = MakeServices},
      flags);
}
