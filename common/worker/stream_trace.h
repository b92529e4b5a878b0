#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "baton/worker/v1/generation.pb.h"
#include "common/base/mutex.h"
#include "common/engine/engine.h"
#include "common/trace/tracer.h"
#include "grpcpp/server_context.h"

namespace baton {

// The spans of one stream at a worker: the call itself, under it the states of its sequence, one
// after the other, and beside them at a prefill worker `push`, which ends when the decode worker
// has committed, and at a decode worker `receive`, a child of that push. Thread-safe; no call
// waits. Touched when a state changes, not for tokens.
class StreamTrace final {
 public:
  // Null where the call is not traced. `tracer` may be null, and outlives this. `method` is the
  // call's full name.
  static std::unique_ptr<StreamTrace> Begin(Tracer* tracer, const grpc::ServerContextBase& call,
                                            std::string_view method);

  // The call has said what it wants; from here on its sequence waits.
  void SetGeneration(const worker::v1::Generation& generation);
  // What the engine says of the sequence.
  void See(const SequenceEvent& event);

  // The context for a push that begins now, as traceparent.
  std::string OpenPush();
  void ClosePush(const absl::Status& status, int32_t blocks, int64_t bytes);
  // A push has come, with this traceparent or with none.
  void OpenReceive(std::string_view traceparent);
  void CloseReceive(int32_t blocks, int64_t bytes);

  // The call's end; the first one counts, and what comes later is left out.
  void End(const absl::Status& status);
  // Nothing more comes.
  void Export();

  const std::string& id() const { return id_; }

 private:
  StreamTrace(Tracer* tracer, std::unique_ptr<SpanTree> tree);
  base::Instant Now() const { return tracer_->clock().Now(); }
  void EnterLocked(std::string_view state, base::Instant at) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteEnd(const FinishedEvent& event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Tracer* const tracer_;
  const std::string id_;
  base::Mutex mutex_;
  std::unique_ptr<SpanTree> tree_ ABSL_GUARDED_BY(mutex_);  // null once it is exported
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::string_view state_name_ ABSL_GUARDED_BY(mutex_);
  SpanTree::Ref state_ ABSL_GUARDED_BY(mutex_) = SpanTree::kNone;
  SpanTree::Ref push_ ABSL_GUARDED_BY(mutex_) = SpanTree::kNone;
};

}  // namespace baton
