#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "common/base/failpoint.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/rpc/credentials.h"
#include "common/rpc/deadline.h"
#include "common/rpc/generation.h"
#include "common/rpc/status_map.h"
#include "common/rpc/stream_writer.h"
#include "common/worker/stream_trace.h"
#include "common/worker/worker_core.h"
#include "grpcpp/server_context.h"
#include "spdlog/spdlog.h"

namespace baton {

// What a Prefill and a Decode stream have in common: a gRPC reactor, the engine's sequence that
// works for it, a bounded writer towards the router, and one end. However a stream ends (the
// router cancels, a deadline passes, the worker drains, the engine stops), `End` is called once
// with the status, the sequence is cancelled, and the router reads that status.
//
// `Self` derives from this and handles the engine's events in overloads of `On`, one for each
// alternative of SequenceEvent::what. `Reactor` is gRPC's class of the call, and `Response` is what
// the call writes.
//
// Called from gRPC's threads, the event router's, the timers' and pushes'; `mutex_` orders them. A
// stream keeps itself alive until gRPC's OnDone; the event router keeps it until the sequence is
// over and its lease has been returned.
template <typename Self, typename Reactor, typename Response>
class WorkerStream : public Reactor,
                     public SequenceSink,
                     public LiveStream,
                     public std::enable_shared_from_this<Self> {
 public:
  // --- Called by gRPC. ---
  void OnWriteDone(bool ok) override { writer_.OnWriteDone(ok); }
  void OnCancel() override {
    writer_.OnCancel();
    End(absl::CancelledError("the router ended the stream"));
  }
  void OnDone() override {
    if (trace_ != nullptr) trace_->Export();
    core_->Leave(this);
    self_.reset();
  }

  // --- Called by the event router. ---
  void OnEvent(const SequenceEvent& event) override {
    if (trace_ != nullptr) trace_->See(event);
    std::visit([this](const auto& what) { static_cast<Self*>(this)->On(what); }, event.what);
  }
  void OnEngineFault(const absl::Status& status) override { End(status); }

  // Called by drain, and for every other end with a status. Only the first end counts.
  void End(const absl::Status& status) override {
    {
      base::MutexLock lock(&mutex_);
      if (std::exchange(ended_, true)) return;
    }
    if (trace_ != nullptr) trace_->End(status);
    LetGo(status);
    if (sequence().valid()) core_->engine().Cancel(sequence());
    writer_.Abort(ToGrpcStatus(status));
  }

 protected:
  using Writer = StreamWriter<Response>;

  // `core` outlives the stream; `context` is the call's and used until OnDone. `merge` may be null.
  // `method` is the call's full name, for its span.
  WorkerStream(WorkerCore* core, grpc::CallbackServerContext* context, typename Writer::Merge merge,
               std::string_view method)
      : core_(core),
        writer_({.write = [this](const Response* message) { this->StartWrite(message); },
                 .finish = [this](grpc::Status status) { this->Finish(std::move(status)); },
                 .cancel = [context] { context->TryCancel(); }},
                merge, core->timeouts().stream_buffer_bytes),
        trace_(StreamTrace::Begin(core->tracer(), *context, method)),
        context_(context),
        deadline_(DeadlineFromSystem(context->deadline(), core->clock())) {}

  // Lets go of what the stream holds beside its sequence: pushes, tickets. Called by the end with
  // `status`, and once more where that came before the sequence was admitted; without the lock.
  virtual void LetGo(const absl::Status& status) = 0;

  // The first call of a stream. An error means that the stream may not run: end it with that.
  absl::Status Begin() {
    self_ = this->shared_from_this();
    BATON_RETURN_IF_ERROR(
        CheckPeerRole(context_->auth_context().get(), core_->identity().tls, "router"));
    return core_->Join(self_);
  }

  // What is to be done once the stream's sequence was admitted, before its first event, or when it
  // was not.
  struct OnAdmission {
    std::function<void()> admitted;
    std::function<void()> refused;
  };
  // Admits the stream's sequence to the engine. One with a guide is admitted, or the stream ended,
  // once its guide was compiled, which is after this has returned OK.
  absl::Status AdmitSequence(SequenceSpec spec, const TokenExtras& extras, OnAdmission then) {
    spec.deadline = deadline_;
    eos_policy_ = spec.stop.eos_policy;
    extras_ = extras;
    const bool only_scored = spec.score_from && spec.stop.max_tokens == 1;
    draws_answer_ = !spec.beams.on() && !only_scored;
    length_class_ = spec.length_class;
    min_tokens_ = spec.stop.min_tokens;
    const absl::Status status =
        spec.guide.empty() ? AdmitNow(std::move(spec), then) : AdmitGuided(std::move(spec), then);
    if (!status.ok()) then.refused();
    return status;
  }

  // A router that does not read is cut off, so that it slows down nobody else.
  void Send(Response response) {
    if (writer_.Send(std::move(response))) return;
    const absl::Status status = MakeError(
        absl::StatusCode::kResourceExhausted, {.reason = Reason::kSlowClient},
        "the router did not read " + std::to_string(core_->timeouts().stream_buffer_bytes) +
            " bytes of this stream; it was ended");
    End(status);
    writer_.Break(ToGrpcStatus(status));
  }

  // Tells of an answer that has run away with the token at `index`.
  void TellRunaway(RunawayAction action, int32_t index) {
    const bool ends = action == RunawayAction::kEnd;
    core_->probe().RanAway(ends);
    spdlog::warn(
        "request {}: runaway at step {}: {}% of the last {} tokens repeat themselves and "
        "EOS was unlikely at every end of a sentence; {}",
        trace_ == nullptr ? request_id_ : request_id_ + " (trace " + trace_->id() + ")", index + 1,
        static_cast<int>(100 * RunawayGuard::kRepeated), RunawayGuard::kWindow,
        ends ? "it ends here" : "it goes on (--runaway end would end it)");
  }

  SequenceId sequence() const { return SequenceId(sequence_.load()); }

  WorkerCore* const core_;
  Writer writer_;
  const std::unique_ptr<StreamTrace> trace_;  // null: not traced
  base::Mutex mutex_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;  // its status was decided, or Final was sent
  // Set before the sequence is admitted, then constant.
  std::string request_id_;
  TokenExtras extras_;  // of the tokens that the router gets
  EosPolicy eos_policy_ = EosPolicy::kHonor;
  // What is drawn stands in an answer: it is not a search's, nor the one token of a request that
  // scores its prompt.
  bool draws_answer_ = true;
  bool predict_ = false;  // estimates of the end go along with tokens
  std::string length_class_;
  int32_t min_tokens_ = 0;

 private:
  absl::Status AdmitNow(SequenceSpec spec, const OnAdmission& then) {
    bool ended_before = false;
    BATON_RETURN_IF_ERROR(core_->events()
                              .Admit(std::move(spec), this->shared_from_this(),
                                     [&](SequenceId id) {
                                       sequence_ = id.value();
                                       // An end that comes from here on finds the sequence.
                                       ended_before = HasEnded();
                                       then.admitted();
                                     })
                              .status());
    base::Failpoint("queued");
    if (ended_before) LetGo(absl::CancelledError("the stream ended before it was admitted"));
    if (HasEnded()) core_->engine().Cancel(sequence());
    return absl::OkStatus();
  }

  absl::Status AdmitGuided(SequenceSpec spec, const OnAdmission& then) {
    BATON_RETURN_IF_ERROR(ValidateGuide(spec.guide, spec.stop));
    if (core_->guides() == nullptr) {
      return MakeError(absl::StatusCode::kUnimplemented, {.reason = Reason::kUnsupportedField},
                       "this worker guides no answers; use another one");
    }
    GuideCompiler::Beginning beginning{.guide = spec.guide,
                                       .generated = spec.generated,
                                       .wanted = [this] { return !HasEnded(); },
                                       .begun = {}};
    beginning.begun = [self = this->shared_from_this(), this, then,
                       spec = std::move(spec)](auto state) mutable {
      absl::Status status = state.status();
      if (status.ok() && !HasEnded()) {
        spec.follows = *std::move(state);
        status = AdmitNow(std::move(spec), then);
      }
      if (status.ok() && sequence().valid()) return;
      then.refused();
      End(status);  // nothing happens where it has ended
    };
    if (core_->guides()->Begin(std::move(beginning))) return absl::OkStatus();
    return MakeError(absl::StatusCode::kResourceExhausted, {.reason = Reason::kFull},
                     "too many guided requests wait to begin here; try another worker");
  }

  bool HasEnded() {
    base::MutexLock lock(&mutex_);
    return ended_;
  }

  grpc::CallbackServerContext* const context_;
  const base::Instant deadline_;
  std::shared_ptr<Self> self_;  // until OnDone
  std::atomic<uint64_t> sequence_{SequenceId::kNoneValue};
};

}  // namespace baton
