#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <random>
#include <string>

#include "baton/v1/inference.grpc.pb.h"
#include "baton/v1/model.grpc.pb.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "router/edge/caller.h"
#include "router/edge/client_sink.h"
#include "router/edge/request_spec.h"
#include "router/request/flow_context.h"

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
  // `context` must outlive this.
  RouterService(FlowContext* context, const CallerRules& callers);

  // From now on new requests are refused.
  void Drain() { draining_ = true; }

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
  // A call that asks for generation, as it came.
  struct Arrival {
    base::Instant at;
    base::Instant deadline;
    Caller caller;
    std::shared_ptr<ClientSink> sink;
    ByteBudget::Share held;
  };
  // What the request says, or why it cannot be read.
  struct Incoming {
    absl::Status parsed;
    v1::GenerationSpec spec;
    RequestInput input;
  };
  // Begins a request whose message is `request`, which lives until the sink has ended.
  template <typename Request>
  void Receive(const grpc::CallbackServerContext& context, const grpc::ByteBuffer* request,
               std::shared_ptr<ClientSink> sink);
  // Goes on with it in the client's turn on the pool, unless the client goes before.
  void ReceiveOnPool(std::shared_ptr<Arrival> arrival, size_t bytes,
                     std::function<Incoming()> read);
  // Takes the message out of `request`.
  template <typename Request>
  static Incoming Read(const grpc::ByteBuffer* request);
  void Accept(Arrival arrival, Incoming incoming);
  std::string SaltOf(const RequestSpec& spec) const;
  void Refuse(const absl::Status& status, ClientSink* sink);
  absl::StatusOr<RequestSpec> Check(Incoming incoming);
  // Answers a unary call of that request on the pool.
  grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context,
                                   const grpc::ByteBuffer& request,
                                   std::function<absl::Status()> answer);
  std::shared_ptr<StreamSink> MakeStream(grpc::CallbackServerContext* context);
  uint64_t DrawSeed();

  FlowContext* const context_;
  const CallerRules callers_;
  std::atomic<bool> draining_{false};
  base::Mutex mutex_;
  std::mt19937_64 random_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton
