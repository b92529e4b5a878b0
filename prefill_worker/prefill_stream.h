#pragma once

#include <memory>
#include <optional>

#include "baton/worker/v1/prefill.grpc.pb.h"
#include "common/rpc/generation.h"
#include "common/transport/kv_transport.h"
#include "common/worker/worker_stream.h"
#include "prefill_worker/kv_sender.h"

namespace baton {

// One Prefill stream: computes the prompt, pushes its blocks while the next chunk is computed, and
// sends the first token. The blocks are given back when the push can read no byte any more.
class PrefillStream final
    : public WorkerStream<PrefillStream, grpc::ServerWriteReactor<worker_pb::PrefillResponse>,
                          worker_pb::PrefillResponse> {
 public:
  PrefillStream(WorkerCore* core, KvTransport* transport, grpc::CallbackServerContext* context)
      : WorkerStream(core, context, /*merge=*/nullptr, "baton.worker.v1.PrefillService/Prefill"),
        transport_(transport) {}

  // Begins the work, or ends the stream if `request` cannot be served.
  void Start(const worker_pb::PrefillRequest& request);

 private:
  friend WorkerStream;

  void LetGo(const absl::Status& status) override;

  absl::Status Check(const worker_pb::PrefillRequest& request) const;
  absl::Status Admit(const worker_pb::PrefillRequest& request);

  void On(const ReservedEvent&) {}
  void On(const RevokedEvent&) {}
  void On(const RefusedEvent& event);
  void On(const StateEvent& event);
  void On(const BlocksReadyEvent& event);
  void On(const ScoresEvent& event);
  void On(const TokenEvent& event);
  void On(const FinishedEvent& event);
  void On(const DetachEvent& event);

  void SendFirstToken(const FinishedEvent& event);
  void OnPushOver(const PushOutcome& outcome);
  // Ends the stream with Final once the sequence and the push are over.
  void FinishIfOver();
  // Gives the lease back and forgets the sequence once the sequence and the push are over.
  void LeaveEngineIfOver();

  KvTransport* const transport_;
  // Shared with the push's transport. Set before the sequence is admitted.
  std::shared_ptr<KvSender> sender_;
  bool sequence_over_ ABSL_GUARDED_BY(mutex_) = false;
  bool left_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<PlacedToken> token_ ABSL_GUARDED_BY(mutex_);
  std::optional<FinishedEvent> finished_ ABSL_GUARDED_BY(mutex_);
  std::optional<PushOutcome> outcome_ ABSL_GUARDED_BY(mutex_);
  base::Instant first_token_at_ ABSL_GUARDED_BY(mutex_){};
  int32_t cached_tokens_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace baton
