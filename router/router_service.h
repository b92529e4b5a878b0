#pragma once

#include <functional>
#include <memory>

#include "baton/v1/inference.grpc.pb.h"
#include "baton/v1/model.grpc.pb.h"
#include "router/edge/caller.h"
#include "router/edge/client_sink.h"
#include "router/request/flow_context.h"
#include "router/request/request_intake.h"

namespace baton {

// The public methods take bytes, so that what does not parse gets an answer that says why.
using RawInferenceService = v1::InferenceService::WithRawCallbackMethod_Generate<
    v1::InferenceService::WithRawCallbackMethod_GenerateOnce<
        v1::InferenceService::WithRawCallbackMethod_ChatGenerate<
            v1::InferenceService::WithRawCallbackMethod_Tokenize<
                v1::InferenceService::WithRawCallbackMethod_Detokenize<
                    v1::InferenceService::Service>>>>>;

// Implements baton.v1.InferenceService by turning calls into flows. Its methods run in gRPC's
// callbacks and never wait.
class RouterService final : public RawInferenceService {
 public:
  // `context` and `intake` must outlive this.
  RouterService(FlowContext* context, const CallerRules& callers, RequestIntake* intake);

  grpc::ServerWriteReactor<grpc::ByteBuffer>* Generate(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* request) override;
  grpc::ServerUnaryReactor* GenerateOnce(grpc::CallbackServerContext* context,
                                         const grpc::ByteBuffer* request,
                                         grpc::ByteBuffer* response) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* ChatGenerate(
      grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) override;
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context,
                                     const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* context,
                                       const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) override;

 private:
  // Begins a request whose message is `request`, which lives until the sink has ended.
  template <typename Request>
  void Receive(const grpc::CallbackServerContext& context, absl::StatusOr<Caller> caller,
               const grpc::ByteBuffer* request, std::shared_ptr<ClientSink> sink);
  // Takes the message out of `request`.
  template <typename Request>
  static IncomingRequest Read(const grpc::ByteBuffer* request);
  // Answers a unary call of that request on the pool.
  grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context,
                                   const grpc::ByteBuffer& request,
                                   std::function<absl::Status()> answer);
  std::shared_ptr<StreamSink> MakeStream(grpc::CallbackServerContext* context);
  LingerOptions LingerOfClients() const;

  FlowContext* const context_;
  const CallerRules callers_;
  RequestIntake* const intake_;
};

}  // namespace baton
