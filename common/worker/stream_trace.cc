#include "common/worker/stream_trace.h"

#include <utility>

#include "common/base/status.h"
#include "common/rpc/trace_metadata.h"

namespace baton {
namespace {

// A sequence's state as its span is called; "" where there is nothing to see any more.
std::string_view SpanOf(SequenceState state) {
  switch (state) {
    case SequenceState::kQueued:
      return "queue";
    case SequenceState::kReserved:
      return "reserved";
    case SequenceState::kPrefilling:
      return "prefill";
    case SequenceState::kDecoding:
      return "decode";
    case SequenceState::kPreempted:
      return "preempted";
    case SequenceState::kDone:
    case SequenceState::kFailed:
      return "";
  }
  return "";
}

void SetError(SpanTree* tree, SpanTree::Ref span, const absl::Status& status) {
  const Reason reason = ReasonOf(status);
  const std::string code(CodeName(status.code()));
  tree->Set(span, "error.type", reason == Reason::kNone ? code : std::string(ReasonName(reason)));
  tree->Set(span, "baton.error.code", code);
  if (status.code() == absl::StatusCode::kCancelled) return;  // the router wants no more of it
  tree->Fail(span, {status.message().data(), status.message().size()});
}

}  // namespace

StreamTrace::StreamTrace(Tracer* tracer, std::unique_ptr<SpanTree> tree)
    : tracer_(tracer), id_(TraceIdHex(tree->context())), tree_(std::move(tree)) {}

std::unique_ptr<StreamTrace> StreamTrace::Begin(Tracer* tracer, const grpc::ServerContextBase& call,
                                                std::string_view method) {
  if (tracer == nullptr) return nullptr;
  const std::optional<TraceContext> caller = TraceContextOf(call);
  if (!caller) return nullptr;
  std::unique_ptr<SpanTree> tree =
      tracer->Begin(caller, std::string(method), SpanKind::kServer, tracer->clock().Now());
  if (tree == nullptr) return nullptr;
  tree->Set(SpanTree::kRoot, "rpc.system", std::string("grpc"));
  return std::unique_ptr<StreamTrace>(new StreamTrace(tracer, std::move(tree)));
}

void StreamTrace::SetGeneration(const worker::v1::Generation& generation) {
  base::MutexLock lock(&mutex_);
  if (ended_) return;
  tree_->Set(SpanTree::kRoot, "baton.request_id", generation.request_id());
  tree_->Set(SpanTree::kRoot, "baton.attempt", static_cast<int64_t>(generation.attempt()));
  EnterLocked("queue", Now());
}

void StreamTrace::EnterLocked(std::string_view state, base::Instant at) {
  if (state == state_name_) return;
  tree_->Close(state_, at);
  state_name_ = state;
  state_ = state.empty() ? SpanTree::kNone : tree_->Open(SpanTree::kRoot, state, at);
}

void StreamTrace::See(const SequenceEvent& event) {
  const auto* state = std::get_if<StateEvent>(&event.what);
  const auto* finished = std::get_if<FinishedEvent>(&event.what);
  if (state == nullptr && finished == nullptr) return;
  base::MutexLock lock(&mutex_);
  if (ended_) return;
  if (state != nullptr) EnterLocked(SpanOf(state->to), event.at);
  if (finished != nullptr) NoteEnd(*finished);
}

void StreamTrace::NoteEnd(const FinishedEvent& event) {
  const auto set = [this](std::string_view key, int64_t value) {
    tree_->Set(SpanTree::kRoot, key, value);
  };
  set("gen_ai.usage.input_tokens", event.prompt_tokens);
  set("gen_ai.usage.output_tokens", event.generated_tokens);
  set("gen_ai.usage.cache_read.input_tokens", event.cached_tokens);
  set("baton.preemptions", event.preemptions);
  if (event.reason == FinishReason::kNone) return;  // it goes on elsewhere
  tree_->Set(SpanTree::kRoot, "baton.finish_reason", std::string(FinishReasonName(event.reason)));
}

std::string StreamTrace::OpenPush() {
  base::MutexLock lock(&mutex_);
  if (ended_) return "";
  push_ = tree_->Open(SpanTree::kRoot, "push", Now(), SpanKind::kClient);
  return FormatTraceparent(tree_->ContextOf(push_));
}

void StreamTrace::ClosePush(const absl::Status& status, int32_t blocks, int64_t bytes) {
  base::MutexLock lock(&mutex_);
  if (ended_) return;
  tree_->Set(push_, "baton.kv.blocks", static_cast<int64_t>(blocks));
  tree_->Set(push_, "baton.kv.bytes", bytes);
  if (!status.ok()) SetError(tree_.get(), push_, status);
  tree_->Close(push_, Now());
}

void StreamTrace::OpenReceive(std::string_view traceparent) {
  const std::optional<TraceContext> sender = ParseTraceparent(traceparent);
  base::MutexLock lock(&mutex_);
  if (ended_) return;
  const TraceContext& own = tree_->context();
  const bool same =
      sender && sender->trace_high == own.trace_high && sender->trace_low == own.trace_low;
  push_ = tree_->OpenUnder(same ? sender->span : own.span, "receive", Now(), SpanKind::kServer);
}

void StreamTrace::CloseReceive(int32_t blocks, int64_t bytes) {
  ClosePush(absl::OkStatus(), blocks, bytes);
}

void StreamTrace::End(const absl::Status& status) {
  base::MutexLock lock(&mutex_);
  if (std::exchange(ended_, true)) return;
  if (!status.ok()) SetError(tree_.get(), SpanTree::kRoot, status);
  tree_->CloseAll(Now());
}

void StreamTrace::Export() {
  std::unique_ptr<SpanTree> tree;
  {
    base::MutexLock lock(&mutex_);
    ended_ = true;
    tree = std::move(tree_);
  }
  if (tree != nullptr) tracer_->Export(std::move(tree));
}

}  // namespace baton
