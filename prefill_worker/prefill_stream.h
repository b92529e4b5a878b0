#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>

#include "baton/worker/v1/prefill.grpc.pb.h"
#include "common/rpc/generation.h"
#include "common/rpc/stream_writer.h"
#include "common/transport/kv_transport.h"
#include "common/worker/worker_core.h"
#include "prefill_worker/kv_sender.h"

namespace baton {

// One Prefill stream: computes the prompt, pushes its blocks while the next chunk computes, sends
// the first token. The blocks are given back when the push can read no byte any more.
//
// Called from gRPC's threads, the event router's, the timers' and the push's; one mutex orders
// them. Keeps itself alive until gRPC's OnDone; the engine's router keeps it until the sequence is
// over and its lease returned.
class PrefillStream final : public grpc::ServerWriteReactor<worker_pb::PrefillResponse>,
                            public SequenceSink,
                            public LiveStream,
                            public std::enable_shared_from_this<PrefillStream> {
 public:
  PrefillStream(WorkerCore* core, KvTransport* transport, base::Instant deadline,
                std::function<void()> cancel_call);

  // An `allowed` that is not OK ends the stream at once.
  void Start(const absl::Status& allowed, const worker_pb::PrefillRequest& request);

  // gRPC.
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;
  // The engine.
  void OnEvent(const SequenceEvent& event) override;
  void OnEngineFault(const absl::Status& status) override;
  // Drain and every other end with a status.
  void End(const absl::Status& status) override;

 private:
  absl::Status Check(const worker_pb::PrefillRequest& request) const;
  absl::Status Admit(const worker_pb::PrefillRequest& request);

  void On(const ReservedEvent&) {}
  void On(const RevokedEvent&) {}
  void On(const RefusedEvent& event);
  void On(const StateEvent& event);
  void On(const BlocksReadyEvent& event);
  void On(const TokenEvent& event);
  void On(const FinishedEvent& event);
  void On(const DetachEvent& event);

  void SendFirstToken(const FinishedEvent& event);
  void OnPushOver(const PushOutcome& outcome);
  // Ends the stream with Final once the sequence and the push are over.
  void FinishIfOver();
  // Gives the lease back and forgets the sequence once the sequence and the push are over.
  void LeaveEngineIfOver();
  void Send(worker_pb::PrefillResponse response);
  SequenceId sequence() const { return SequenceId(sequence_.load()); }

  WorkerCore* const core_;
  KvTransport* const transport_;
  const base::Instant deadline_;
  std::shared_ptr<PrefillStream> self_;  // until OnDone
  StreamWriter<worker_pb::PrefillResponse> writer_;
  // Shared with the push's transport. Set before the sequence is admitted.
  std::shared_ptr<KvSender> sender_;
  std::atomic<uint64_t> sequence_{SequenceId::kNoneValue};
  // Set before the sequence is admitted.
  bool eos_signals_ = false;
  EosPolicy eos_policy_ = EosPolicy::kHonor;

  base::Mutex mutex_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;  // a status was decided
  bool sequence_over_ ABSL_GUARDED_BY(mutex_) = false;
  bool left_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<PlacedToken> token_ ABSL_GUARDED_BY(mutex_);
  std::optional<FinishedEvent> finished_ ABSL_GUARDED_BY(mutex_);
  std::optional<PushOutcome> outcome_ ABSL_GUARDED_BY(mutex_);
  base::Instant first_token_at_ ABSL_GUARDED_BY(mutex_){};
  int32_t cached_tokens_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace baton
