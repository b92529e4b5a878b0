#include "router/request/request_trace.h"

#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace baton {
namespace {

// As the semantic conventions of OpenTelemetry for generative models name the operation.
std::string_view OperationOf(const RequestSpec& spec) {
  return spec.chat ? "chat" : "text_completion";
}

// As OpenAI names it, which is what the convention's values are.
std::string PublicReason(FinishReason reason) {
  switch (reason) {
    case FinishReason::kLength:
    case FinishReason::kRunaway:
      return "length";
    case FinishReason::kStopEos:
    case FinishReason::kStopToken:
    case FinishReason::kStopString:
    case FinishReason::kStopGrammar:
      return "stop";
    default:
      return "error";
  }
}

bool IsFailure(AttemptOutcome outcome) {
  return outcome != AttemptOutcome::kFinished && outcome != AttemptOutcome::kReleased &&
         outcome != AttemptOutcome::kCancelled;
}

// A number as who sent it wrote it: 0.3, not 0.30000001192092896.
double AsWritten(float value) {
  double written = value;
  (void)absl::SimpleAtod(absl::StrCat(value), &written);
  return written;
}

// What a request asked of sampling, where the convention has a name for it.
void SetSampling(const RequestSpec& spec, SpanTree* tree) {
  const SamplingParams& sampling = spec.sampling;
  const auto set = [tree](std::string_view key, float value) {
    tree->Set(SpanTree::kRoot, key, AsWritten(value));
  };
  set("gen_ai.request.temperature", sampling.temperature);
  set("gen_ai.request.top_p", sampling.top_p);
  if (sampling.top_k > 0) {
    tree->Set(SpanTree::kRoot, "gen_ai.request.top_k", int64_t{sampling.top_k});
  }
  if (sampling.presence_penalty != 0) {
    set("gen_ai.request.presence_penalty", sampling.presence_penalty);
  }
  if (sampling.frequency_penalty != 0) {
    set("gen_ai.request.frequency_penalty", sampling.frequency_penalty);
  }
}

}  // namespace

RequestTrace::RequestTrace(Tracer* tracer, std::unique_ptr<SpanTree> tree)
    : tracer_(tracer), tree_(std::move(tree)) {}

std::unique_ptr<RequestTrace> RequestTrace::Begin(Tracer* tracer,
                                                  const std::optional<TraceContext>& caller,
                                                  Transport transport, base::Instant arrived) {
  if (tracer == nullptr) return nullptr;
  std::unique_ptr<SpanTree> tree = tracer->Begin(caller, "request", SpanKind::kServer, arrived);
  if (tree == nullptr) return nullptr;
  tree->Set(SpanTree::kRoot, "gen_ai.provider.name", std::string("baton"));
  tree->Set(SpanTree::kRoot, "baton.transport",
            std::string(transport == Transport::kHttp ? "http" : "grpc"));
  std::unique_ptr<RequestTrace> trace(new RequestTrace(tracer, std::move(tree)));
  trace->stage_name_ = "prepare";
  trace->stage_ = trace->tree_->Open(SpanTree::kRoot, trace->stage_name_, arrived);
  return trace;
}

RequestTrace::~RequestTrace() {
  // Its client went while the request waited to be read.
  if (!ended_) tree_->Set(SpanTree::kRoot, "baton.finish_reason", std::string("aborted"));
  tracer_->Export(std::move(tree_));
}

void RequestTrace::Accept(const RequestSpec& spec, const std::string& model) {
  const std::string operation(OperationOf(spec));
  tree_->Rename(SpanTree::kRoot, absl::StrCat(operation, " ", model));
  const auto set = [this](std::string_view key, const std::string& value) {
    tree_->Set(SpanTree::kRoot, key, value);
  };
  set("gen_ai.operation.name", operation);
  set("gen_ai.request.model", model);
  set("gen_ai.response.id", spec.request_id);
  set("baton.request_id", spec.request_id);
  set("baton.tenant", spec.tenant);
  if (spec.answers > 1) tree_->Set(SpanTree::kRoot, "baton.answer_index", int64_t{spec.index});
  SetSampling(spec, tree_.get());
}

void RequestTrace::SetError(SpanTree::Ref span, const absl::Status& status) {
  const Reason reason = ReasonOf(status);
  const std::string code(CodeName(status.code()));
  tree_->Set(span, "error.type", reason == Reason::kNone ? code : std::string(ReasonName(reason)));
  tree_->Set(span, "baton.error.code", code);
  // A client that goes has not met an error.
  if (status.code() == absl::StatusCode::kCancelled) return;
  tree_->Fail(span, {status.message().data(), status.message().size()});
}

void RequestTrace::Refuse(const absl::Status& status) {
  ended_ = true;
  SetError(SpanTree::kRoot, status);
  tree_->Set(SpanTree::kRoot, "baton.finish_reason", std::string("rejected"));
}

void RequestTrace::Enter(std::string_view stage) {
  if (stage == stage_name_) return;
  const base::Instant now = Now();
  tree_->Close(stage_, now);
  stage_name_ = stage;
  stage_ = tree_->Open(parent_, stage, now);
}

void RequestTrace::FirstToken(base::Instant at) {
  tree_->AddEvent(SpanTree::kRoot, "first_token", at);
}

void RequestTrace::OpenAttempt(int32_t number, const Placement& placement) {
  const base::Instant now = Now();
  tree_->Close(stage_, now);
  parent_ = attempt_ = tree_->Open(SpanTree::kRoot, "attempt", now, SpanKind::kClient);
  attempt_context_ = tree_->ContextOf(attempt_);
  tree_->Set(attempt_, "baton.attempt", static_cast<int64_t>(number));
  tree_->Set(attempt_, "baton.decode_worker", placement.decode.view.address);
  const bool local = !placement.prefill.has_value();
  tree_->Set(attempt_, "baton.local_prefill", local);
  tree_->Set(attempt_, "baton.chosen_by", std::string(ChosenByName(placement.chosen_by)));
  tree_->Set(attempt_, "baton.believed_cached_tokens", placement.cached_tokens);
  const SplitChoice& split = placement.split;
  tree_->Set(attempt_, "baton.split_reason", std::string(SplitReasonName(split.reason)));
  if (split.split_cost.total_s() > 0) {
    tree_->Set(attempt_, "baton.split_cost_ms", 1e3 * split.split_cost.total_s());
    tree_->Set(attempt_, "baton.local_cost_ms", 1e3 * split.local_cost.total_s());
  }
  stage_name_ = local ? "prefill" : "reserve";
  stage_ = tree_->Open(attempt_, stage_name_, now);
}

void RequestTrace::FailAttempt(const absl::Status& status) { SetError(attempt_, status); }

void RequestTrace::EndAttempt(AttemptOutcome outcome, const std::string& prefill_worker,
                              int32_t tokens) {
  const base::Instant now = Now();
  const std::string name(AttemptOutcomeName(outcome));
  tree_->Set(attempt_, "baton.attempt.outcome", name);
  tree_->Set(attempt_, "baton.attempt.output_tokens", static_cast<int64_t>(tokens));
  if (!prefill_worker.empty()) tree_->Set(attempt_, "baton.prefill_worker", prefill_worker);
  if (IsFailure(outcome)) tree_->Fail(attempt_, name);
  tree_->Close(stage_, now);
  tree_->Close(attempt_, now);
  stage_ = attempt_ = SpanTree::kNone;
  stage_name_ = "";
  parent_ = SpanTree::kRoot;
}

void RequestTrace::End(const TracedEnd& end) {
  ended_ = true;
  const RequestFigures& figures = end.figures;
  const auto count = [this](std::string_view key, int64_t value) {
    tree_->Set(SpanTree::kRoot, key, value);
  };
  if (end.max_tokens > 0) count("gen_ai.request.max_tokens", end.max_tokens);
  count("gen_ai.usage.input_tokens", figures.prompt_tokens);
  count("gen_ai.usage.output_tokens", figures.output_tokens);
  count("gen_ai.usage.cache_read.input_tokens", end.cached_tokens);
  count("baton.attempts", end.attempts);
  tree_->Set(SpanTree::kRoot, "baton.finish_reason",
             std::string(figures.rejected ? "rejected" : end.reason));
  if (figures.status.ok()) {
    tree_->Set(SpanTree::kRoot, "gen_ai.response.finish_reasons",
               std::vector<std::string>{PublicReason(figures.reason)});
  } else {
    SetError(SpanTree::kRoot, figures.status);
  }
  tree_->CloseAll(Now());
}

std::string LogName(const std::string& request_id, const RequestTrace* trace) {
  return trace == nullptr ? request_id : absl::StrCat(request_id, " (trace ", trace->id(), ")");
}

}  // namespace baton
