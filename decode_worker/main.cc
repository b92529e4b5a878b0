#include "common/config/bind.h"
#include "common/transport/grpc_stream.h"
#include "common/worker/worker_process.h"
#include "decode_worker/decode_service.h"
#include "decode_worker/kv_receiver.h"
#include "grpcpp/impl/service_type.h"

namespace {

class DecodeServices final : public baton::RoleServices {
 public:
  explicit DecodeServices(baton::WorkerCore* core)
      : receiver_(core),
        decode_(baton::MakeDecodeService(core, &receiver_)),
        transfer_(baton::MakeKvTransferService(&receiver_, core->identity().tls)) {}

  std::vector<grpc::Service*> services() override { return {decode_.get(), transfer_.get()}; }

 private:
  baton::KvReceiver receiver_;
  std::unique_ptr<grpc::Service> decode_;
  std::unique_ptr<grpc::Service> transfer_;
};

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
       .make_services = [](baton::WorkerCore* core,
                           const baton::TlsOptions&) -> std::unique_ptr<baton::RoleServices> {
         return std::make_unique<DecodeServices>(core);
       }},
      flags);
}
