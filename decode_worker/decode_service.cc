#include "decode_worker/decode_service.h"

#include "baton/worker/v1/decode.grpc.pb.h"
#include "decode_worker/decode_stream.h"

namespace baton {
namespace {

class DecodeServiceImpl final : public worker_pb::DecodeService::CallbackService {
 public:
  DecodeServiceImpl(WorkerCore* core, KvReceiver* receiver) : core_(core), receiver_(receiver) {}

  grpc::ServerBidiReactor<worker_pb::DecodeRequest, worker_pb::DecodeResponse>* Decode(
      grpc::CallbackServerContext* context) override {
    auto stream = std::make_shared<DecodeStream>(core_, receiver_, context);
    stream->Start();
    return stream.get();
  }

 private:
  WorkerCore* const core_;
  KvReceiver* const receiver_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeDecodeService(WorkerCore* core, KvReceiver* receiver) {
  return std::make_unique<DecodeServiceImpl>(core, receiver);
}

}  // namespace baton
