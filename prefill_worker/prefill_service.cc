#include "prefill_worker/prefill_service.h"

#include "baton/worker/v1/prefill.grpc.pb.h"
#include "common/rpc/credentials.h"
#include "common/rpc/status_map.h"
#include "prefill_worker/prefill_stream.h"

namespace baton {
namespace {

class PrefillServiceImpl final : public worker_pb::PrefillService::CallbackService {
 public:
  PrefillServiceImpl(WorkerCore* core, KvTransport* transport, PairWarmer* warmer)
      : core_(core), transport_(transport), warmer_(warmer) {}

  grpc::ServerWriteReactor<worker_pb::PrefillResponse>* Prefill(
      grpc::CallbackServerContext* context, const worker_pb::PrefillRequest* request) override {
    auto stream = std::make_shared<PrefillStream>(core_, transport_, context);
    stream->Start(*request);
    return stream.get();
  }

  grpc::ServerUnaryReactor* WarmPair(grpc::CallbackServerContext* context,
                                     const worker_pb::WarmPairRequest* request,
                                     worker_pb::WarmPairResponse*) override {
    const absl::Status allowed =
        CheckPeerRole(context->auth_context().get(), core_->identity().tls, "router");
    if (allowed.ok() && warmer_ != nullptr && !core_->draining()) {
      warmer_->Warm(request->push_address(), request->incarnation());
    }
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(ToGrpcStatus(allowed));
    return reactor;
  }

 private:
  WorkerCore* const core_;
  KvTransport* const transport_;
  PairWarmer* const warmer_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakePrefillService(WorkerCore* core, KvTransport* transport,
                                                  PairWarmer* warmer) {
  return std::make_unique<PrefillServiceImpl>(core, transport, warmer);
}

}  // namespace baton
