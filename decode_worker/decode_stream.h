#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>

#include "baton/worker/v1/decode.grpc.pb.h"
#include "common/rpc/generation.h"
#include "common/rpc/stream_writer.h"
#include "common/worker/worker_core.h"
#include "decode_worker/kv_receiver.h"

namespace baton {

// One Decode stream: one attempt of a request on this worker. Its end, for whatever reason, frees
// everything it held.
//
// Called from gRPC's threads, the event router's, the timers' and pushes'; one mutex orders them.
// It keeps itself alive until gRPC's OnDone; the engine's router keeps it until the sequence is
// over and its lease returned.
class DecodeStream final
    : public grpc::ServerBidiReactor<worker_pb::DecodeRequest, worker_pb::DecodeResponse>,
      public SequenceSink,
      public LiveStream,
      public std::enable_shared_from_this<DecodeStream> {
 public:
  // `deadline` is the call's.
  DecodeStream(WorkerCore* core, KvReceiver* receiver, base::Instant deadline,
               std::function<void()> cancel_call);

  // Begins to read; an `allowed` that is not OK ends the stream at once.
  void Start(const absl::Status& allowed);

  // gRPC.
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;
  // The engine.
  void OnEvent(const SequenceEvent& event) override;
  void OnEngineFault(const absl::Status& status) override;
  // Drain, expiry and every other end with a status.
  void End(const absl::Status& status) override;

 private:
  // The router's messages.
  absl::Status Admit(const worker_pb::DecodeStart& start);
  void OnRelease(const worker_pb::Release& release);

  // The engine's events.
  void On(const ReservedEvent& event);
  void On(const RefusedEvent& event);
  void On(const StateEvent& event);
  void On(const BlocksReadyEvent& event);
  void On(const TokenEvent& event);
  void On(const FinishedEvent& event);
  void On(const RevokedEvent& event);
  void On(const DetachEvent& event);

  void OnCommitted(const PushCommitment& commitment);
  void SendStarted(const PlacedToken& token, int32_t cached_tokens);
  void Send(worker_pb::DecodeResponse response);
  void WatchSilence(base::Duration delay);
  void CheckSilence();
  // The sequence is over: gives the lease back as soon as no copy runs, then forgets it.
  void LeaveEngine();
  // Voids the ticket and ends the push, if any.
  void DropReservation(const absl::Status& push_status);
  SequenceId sequence() const { return SequenceId(sequence_.load()); }

  WorkerCore* const core_;
  KvReceiver* const receiver_;
  const base::Instant deadline_;
  std::shared_ptr<DecodeStream> self_;  // until OnDone
  worker_pb::DecodeRequest request_;    // owned by the outstanding read
  StreamWriter<worker_pb::DecodeResponse> writer_;

  std::atomic<uint64_t> sequence_{SequenceId::kNoneValue};
  bool started_reading_ = false;  // reads only
  // Set by the start message, before the sequence is admitted; then constant.
  bool local_prefill_ = false;
  bool eos_signals_ = false;
  int32_t first_index_ = 0;
  int32_t prefix_tokens_ = 0;  // prompt and generated
  EosPolicy eos_policy_ = EosPolicy::kHonor;
  base::Instant admitted_at_{};
  EosSignal last_signal_;  // of the last token; the engine's router only

  base::Mutex mutex_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;  // a status was decided, or Final was sent
  std::shared_ptr<Reservation> reservation_ ABSL_GUARDED_BY(mutex_);  // shared with its push
  std::optional<Ticket> ticket_ ABSL_GUARDED_BY(mutex_);              // while it is valid
  std::optional<FinishReason> release_ ABSL_GUARDED_BY(mutex_);
  int32_t cached_blocks_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace baton
