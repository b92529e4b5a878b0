#pragma once

#include <memory>
#include <optional>

#include "baton/worker/v1/decode.grpc.pb.h"
#include "common/rpc/generation.h"
#include "common/worker/worker_stream.h"
#include "decode_worker/kv_receiver.h"

namespace baton {

// One Decode stream: one attempt of a request on this worker. Its end, for whatever reason, frees
// everything it held.
class DecodeStream final
    : public WorkerStream<
          DecodeStream,
          grpc::ServerBidiReactor<worker_pb::DecodeRequest, worker_pb::DecodeResponse>,
          worker_pb::DecodeResponse> {
 public:
  DecodeStream(WorkerCore* core, KvReceiver* receiver, grpc::CallbackServerContext* context);

  // Begins to read, or ends the stream if it may not run.
  void Start();
  void OnReadDone(bool ok) override;

 private:
  friend WorkerStream;

  void LetGo(const absl::Status& status) override;

  // What the router says.
  absl::Status Admit(const worker_pb::DecodeStart& start);
  void OnRelease(const worker_pb::Release& release);

  // What the engine says.
  void On(const ReservedEvent& event);
  void On(const RefusedEvent& event);
  void On(const StateEvent& event);
  void On(const BlocksReadyEvent& event);
  void On(const ScoresEvent& event);
  void On(const TokenEvent& event);
  void On(const FinishedEvent& event);
  void On(const RevokedEvent& event);
  void On(const DetachEvent& event);

  void OnCommitted(const PushCommitment& commitment);
  // Waits while a commit is passed on and Started sent, which takes microseconds.
  void AwaitStarted();
  void SendStarted(const PlacedToken& token, int32_t cached_tokens);
  void WatchSilence(base::Duration delay);
  void CheckSilence();
  // Called when the sequence is over: gives the lease back as soon as no copy runs, then forgets
  // it.
  void LeaveEngine();
  // Voids the ticket and ends the push, if any.
  void DropReservation(const absl::Status& push_status);

  KvReceiver* const receiver_;
  worker_pb::DecodeRequest request_;  // owned by the outstanding read
  bool started_reading_ = false;      // only used by reads
  // Set by the start message, before the sequence is admitted; then constant.
  bool local_prefill_ = false;
  int32_t first_index_ = 0;
  int32_t prefix_tokens_ = 0;  // tokens of the prompt and the generated ones
  base::Instant admitted_at_{};
  EosSignal last_signal_;  // of the last token; only used by the event router

  base::Mutex started_mutex_;  // held from the commit's way to the engine until Started is sent

  std::shared_ptr<Reservation> reservation_ ABSL_GUARDED_BY(mutex_);  // shared with its push
  std::optional<Ticket> ticket_ ABSL_GUARDED_BY(mutex_);              // while it is valid
  std::optional<FinishReason> release_ ABSL_GUARDED_BY(mutex_);
  int32_t cached_blocks_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace baton
