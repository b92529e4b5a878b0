#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/trace/tracer.h"
#include "router/edge/request_spec.h"
#include "router/placement/placer.h"
#include "router/request/attempt_ledger.h"
#include "router/router_probe.h"

namespace baton {

// How a request ended, beside its RequestFigures.
struct TracedEnd {
  const RequestFigures& figures;
  std::string_view reason;  // as logs name it
  int32_t max_tokens = 0;   // asked for, or what stands for that; 0 = it never came to that
  int32_t cached_tokens = 0;
  int32_t attempts = 0;
};

// The spans of one request at the router: the request itself; under it, one after the other,
// `prepare`, `queue` and its attempts; under an attempt `reserve`, `prefill`, `transfer` and
// `decode`, and the spans of the workers. Exported when it is destroyed. Not thread-safe; no call
// waits.
class RequestTrace final {
 public:
  // Null where the request is not traced. `tracer` may be null, and outlives this.
  static std::unique_ptr<RequestTrace> Begin(Tracer* tracer,
                                             const std::optional<TraceContext>& caller,
                                             Transport transport, base::Instant arrived);
  ~RequestTrace();

  // It is valid, and asks for this of a model of this name.
  void Accept(const RequestSpec& spec, const std::string& model);
  // It is refused at the door.
  void Refuse(const absl::Status& status);

  // What it does from now on; the same again changes nothing. `stage` is a literal.
  void Enter(std::string_view stage);
  void FirstToken(base::Instant at);

  void OpenAttempt(int32_t number, const Placement& placement);
  // Why the attempt ends.
  void FailAttempt(const absl::Status& status);
  void EndAttempt(AttemptOutcome outcome, const std::string& prefill_worker, int32_t tokens);

  void End(const TracedEnd& end);

  // What calls to workers carry; of the attempt that was opened last.
  const TraceContext* attempt_context() const { return &attempt_context_; }
  // Of the request as a whole.
  const TraceContext& context() const { return tree_->context(); }
  std::string id() const { return TraceIdHex(tree_->context()); }

 private:
  RequestTrace(Tracer* tracer, std::unique_ptr<SpanTree> tree);
  base::Instant Now() const { return tracer_->clock().Now(); }
  void SetError(SpanTree::Ref span, const absl::Status& status);

  Tracer* const tracer_;
  std::unique_ptr<SpanTree> tree_;
  std::string_view stage_name_;
  SpanTree::Ref stage_ = SpanTree::kNone;
  SpanTree::Ref attempt_ = SpanTree::kNone;
  SpanTree::Ref parent_ = SpanTree::kRoot;  // of stages: the attempt while there is one
  TraceContext attempt_context_;
  bool ended_ = false;
};

// How log lines name a request: its id, and that of its trace where there is one.
std::string LogName(const std::string& request_id, const RequestTrace* trace);

}  // namespace baton
