#include "router/router_probe.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "router/request/request_summary.h"

namespace baton {
namespace {

constexpr std::string_view kQueuedStage = "queued";

// Why a request has no whole answer; empty when it has.
std::string FailureLabel(const RequestFigures& figures) {
  if (figures.rejected) return "rejected";
  switch (figures.reason) {
    case FinishReason::kAborted:
      return "abort";
    case FinishReason::kDeadline:
      return "deadline";
    case FinishReason::kError:
    case FinishReason::kNone:
      return "error";
    default:
      return "";
  }
}

std::string ReasonLabel(const absl::Status& status) {
  const Reason reason = ReasonOf(status);
  return reason == Reason::kNone ? "none" : std::string(ReasonName(reason));
}

}  // namespace

RouterProbe::RouterProbe(MetricsRegistry* registry)
    : registry_(registry),
      received_grpc_(registry->counter(Metric::kRequestsReceived, {"grpc"})),
      received_http_(registry->counter(Metric::kRequestsReceived, {"http"})),
      inflight_(registry->gauge(Metric::kRequestsInflight)),
      ttft_(registry->histogram(Metric::kTimeToFirstToken)),
      inter_token_(registry->histogram(Metric::kInterTokenLatency)),
      queue_time_(registry->histogram(Metric::kRequestQueueTime)),
      waiting_(registry->gauge(Metric::kNumRequestsWaiting)),
      generated_(registry->counter(Metric::kGenerationTokens)),
      prompt_tokens_(registry->counter(Metric::kPromptTokens)),
      predictions_dropped_(registry->counter(Metric::kEndPredictionsDropped)),
      tenants_(registry) {
  for (const char* stage : {"reserved", "prefilling", "decoding", "preempted"}) {
    running_stages_.push_back(&registry->gauge(Metric::kNumRequestsInStage, {stage}));
  }
}

void RouterProbe::RequestReceived(Transport transport) {
  recent_.RequestReceived();
  inflight_.Increment();
  (transport == Transport::kHttp ? received_http_ : received_grpc_).Increment();
}

void RouterProbe::RefusedAtTheDoor(const absl::Status& status) {
  RequestEnded({.reason = FinishReason::kError, .rejected = true, .status = status});
}

void RouterProbe::CountEnd(const RequestFigures& figures) {
  const std::string failure = FailureLabel(figures);
  if (!failure.empty()) {
    registry_->counter(Metric::kRequestFailure, {failure}).Increment();
    ++failed_;
    return;
  }
  ++answered_;
  const bool length =
      figures.reason == FinishReason::kLength || figures.reason == FinishReason::kRunaway;
  registry_
      ->counter(Metric::kRequestSuccess,
                {length ? "length" : "stop", std::string(StopCauseName(figures.reason))})
      .Increment();
}

void RouterProbe::PredictionsDropped(size_t count) {
  predictions_dropped_.Increment(static_cast<double>(count));
}

void RouterProbe::RequestEnded(const RequestFigures& figures) {
  CountEnd(figures);
  inflight_.Decrement();
  if (!figures.status.ok()) {
    registry_
        ->counter(Metric::kRequestErrors,
                  {std::string(CodeName(figures.status.code())), ReasonLabel(figures.status)})
        .Increment();
  }
  if (figures.rejected) return;
  registry_->histogram(Metric::kE2eRequestLatency).Observe(base::Seconds(figures.total));
  registry_->histogram(Metric::kRequestDeadlineSlack)
      .Observe(std::max(0.0, base::Seconds(figures.slack)));
  registry_->histogram(Metric::kRequestPromptTokens).Observe(figures.prompt_tokens);
  registry_->histogram(Metric::kRequestGenerationTokens).Observe(figures.output_tokens);
  prompt_tokens_.Increment(figures.prompt_tokens);
  recent_.PromptTokens(figures.prompt_tokens);
  tenants_.RequestEnded(figures.tenant, figures.prompt_tokens, figures.output_tokens);
  if (figures.queue_ms) {
    queue_time_.Observe(*figures.queue_ms / 1e3);
    tenants_.Waited(figures.tenant, *figures.queue_ms / 1e3);
  }
  if (figures.decoding) {
    registry_->histogram(Metric::kRequestTimePerOutputToken)
        .Observe(base::Seconds(*figures.decoding) / figures.decoding_gaps);
  }
  if (figures.natural_end_step) {
    registry_->histogram(Metric::kEosFirstNaturalPosition).Observe(*figures.natural_end_step);
  }
}

void RouterProbe::MaxTokensAsked(int32_t max_tokens) {
  registry_->histogram(Metric::kRequestParamsMaxTokens).Observe(max_tokens);
}

void RouterProbe::AskedToIgnoreEos(EosPolicy policy) {
  registry_->counter(Metric::kIgnoreEosRequests, {std::string(EosPolicyName(policy))}).Increment();
}

void RouterProbe::StageChanged(std::string_view from, std::string_view to) {
  if (from == to) return;
  if (!from.empty()) registry_->gauge(Metric::kNumRequestsInStage, {std::string(from)}).Decrement();
  if (!to.empty()) registry_->gauge(Metric::kNumRequestsInStage, {std::string(to)}).Increment();
  waiting_.Increment((to == kQueuedStage ? 1 : 0) - (from == kQueuedStage ? 1 : 0));
}

void RouterProbe::QueueRefused() {
  registry_->counter(Metric::kQueueRejections, {"requests"}).Increment();
}

void RouterProbe::DiedInQueue() {
  registry_->counter(Metric::kQueueRejections, {"deadline"}).Increment();
}

void RouterProbe::Picked(Routing routing, base::Duration took, bool found) {
  registry_->histogram(Metric::kRouterPickDuration).Observe(base::Seconds(took));
  registry_
      ->counter(Metric::kRouterPicks,
                {std::string(RoutingName(routing)), found ? "picked" : "none"})
      .Increment();
}

void RouterProbe::Chosen(const Placement& placement, int64_t tokens, bool looked) {
  registry_->counter(Metric::kRouterChoices, {std::string(ChosenByName(placement.chosen_by))})
      .Increment();
  if (!looked) return;
  registry_->histogram(Metric::kRouterCachedShare)
      .Observe(static_cast<double>(placement.cached_tokens) /
               static_cast<double>(std::max<int64_t>(1, tokens)));
}

void RouterProbe::AttemptOpened(const Placement& placement) {
  const bool split = placement.prefill.has_value();
  const std::string decision = split ? "split" : "local";
  registry_->counter(Metric::kPdDecision, {decision}).Increment();
  registry_
      ->counter(Metric::kPdReason, {decision, std::string(SplitReasonName(placement.split.reason))})
      .Increment();
  if (split && placement.prefill->view.facts.numerics != placement.decode.view.facts.numerics) {
    registry_->counter(Metric::kRouterNumericsMismatch).Increment();
  }
}

void RouterProbe::NumericsChanged() {
  registry_->counter(Metric::kRouterNumericsMismatch).Increment();
}

void RouterProbe::AttemptEnded(AttemptOutcome outcome) {
  registry_->counter(Metric::kAttempts, {std::string(AttemptOutcomeName(outcome))}).Increment();
}

void RouterProbe::PrefillOfferedAgain(bool accepted) {
  registry_->counter(Metric::kRouterWorkerRetries, {accepted ? "accepted" : "refused"}).Increment();
}

void RouterProbe::PairAsked(bool arrived) {
  registry_->counter(Metric::kRouterPairWarmups, {arrived ? "asked" : "failed"}).Increment();
}

void RouterProbe::FirstToken(const std::string& tenant, base::Duration since_arrival) {
  ttft_.Observe(base::Seconds(since_arrival));
  recent_.FirstToken(since_arrival);
  tenants_.FirstToken(tenant, since_arrival);
  generated_.Increment();
}

void RouterProbe::NextToken(base::Duration since_last) {
  inter_token_.Observe(base::Seconds(since_last));
  recent_.NextToken(since_last);
  generated_.Increment();
}

LoadTotals RouterProbe::Load() const {
  LoadTotals load = {.waiting = static_cast<int64_t>(waiting_.Value()),
                     .prompt_tokens = static_cast<uint64_t>(prompt_tokens_.Value()),
                     .generated_tokens = static_cast<uint64_t>(generated_.Value()),
                     .requests = LoadTotals::Requests{.answered = answered_, .failed = failed_}};
  for (const prometheus::Gauge* stage : running_stages_) {
    load.running += static_cast<int64_t>(stage->Value());
  }
  return load;
}

void RouterProbe::WatchEosLog(const EosLog* log) {
  prometheus::Counter* const dropped = &registry_->counter(Metric::kEosLogDropped);
  registry_->OnScrape([registry = registry_, dropped, log] {
    MetricsRegistry::AdvanceTo(dropped, static_cast<double>(log->lines_dropped()));
    for (const UpkeepStep step :
         {UpkeepStep::kRotate, UpkeepStep::kCompress, UpkeepStep::kRemove}) {
      MetricsRegistry::AdvanceTo(
          &registry->counter(Metric::kEosLogUpkeepFailures, {std::string(UpkeepStepName(step))}),
          static_cast<double>(log->upkeep_failures(step)));
    }
  });
}

void RouterProbe::WatchBytes(const ByteBudget* budget) {
  prometheus::Gauge* const bytes = &registry_->gauge(Metric::kRequestBytesInflight);
  registry_->OnScrape([bytes, budget] { bytes->Set(static_cast<double>(budget->used())); });
}

void RouterProbe::WatchTexts(const WorkPool* pool) {
  prometheus::Gauge* const waiting = &registry_->gauge(Metric::kTextsWaiting);
  prometheus::Gauge* const bytes = &registry_->gauge(Metric::kTextBytesWaiting);
  prometheus::Counter* const refused = &registry_->counter(Metric::kQueueRejections, {"text"});
  registry_->OnScrape([waiting, bytes, refused, pool] {
    const WorkPool::Figures figures = pool->figures();
    waiting->Set(static_cast<double>(figures.waiting));
    bytes->Set(static_cast<double>(figures.bytes));
    MetricsRegistry::AdvanceTo(refused, static_cast<double>(figures.refused));
  });
}

void RouterProbe::WatchQueue(std::function<base::Duration()> oldest_wait) {
  prometheus::Gauge* const oldest = &registry_->gauge(Metric::kQueueOldestWait);
  registry_->OnScrape(
      [oldest, wait = std::move(oldest_wait)] { oldest->Set(base::Seconds(wait())); });
}

void RouterProbe::WatchHttp(const HttpServer* server) {
  registry_->OnScrape([registry = registry_, server] {
    const HttpServerCounts counts = server->counts();
    registry->gauge(Metric::kHttpConnections).Set(static_cast<double>(counts.connections_open));
    MetricsRegistry::AdvanceTo(&registry->counter(Metric::kHttpConnectionsRefused),
                               static_cast<double>(counts.connections_refused));
    for (int group = 1; group <= 5; ++group) {
      MetricsRegistry::AdvanceTo(
          &registry->counter(Metric::kHttpAnswers, {std::to_string(group) + "xx"}),
          static_cast<double>(counts.answers_by_class[group]));
    }
    const std::vector<std::string>& named = InfoOf(Metric::kHttpRefusals).labels.front().values;
    double others = 0;
    for (const auto& [status, count] : counts.refusals_by_status) {
      const std::string label = std::to_string(status);
      if (std::ranges::find(named, label) == named.end()) {
        others += static_cast<double>(count);
      } else {
        MetricsRegistry::AdvanceTo(&registry->counter(Metric::kHttpRefusals, {label}),
                                   static_cast<double>(count));
      }
    }
    MetricsRegistry::AdvanceTo(&registry->counter(Metric::kHttpRefusals, {"other"}), others);
  });
}

void RouterProbe::WatchKeys(const ApiKeyFile* keys) {
  prometheus::Counter* const refusals = &registry_->counter(Metric::kApiKeyRefusals);
  registry_->OnScrape([refusals, keys] {
    MetricsRegistry::AdvanceTo(refusals, static_cast<double>(keys->refusals()));
  });
}

void RouterProbe::WatchTenants(const TenantRules& rules, TenantProbe::Each each) {
  tenants_.Watch(rules, std::move(each));
}

void RouterProbe::WatchWorkers(WorkerDirectory* directory) {
  registry_->OnScrape([this, directory] {
    UpdateWorkers(directory->Report());
    registry_->gauge(Metric::kRouterKnownCachedBlocks)
        .Set(static_cast<double>(directory->prefix_hints().known()));
  });
}

void RouterProbe::UpdateWorkers(const std::vector<WorkerReport>& workers) {
  std::set<std::pair<std::string, WorkerKind>> gone = std::exchange(shown_workers_, {});
  const auto up = [&](const std::string& address, WorkerKind kind) -> prometheus::Gauge& {
    return registry_->gauge(Metric::kRouterWorkerUp, {address, std::string(WorkerKindName(kind))});
  };
  for (const WorkerReport& worker : workers) {
    shown_workers_.insert({worker.address, worker.kind});
    gone.erase({worker.address, worker.kind});
    up(worker.address, worker.kind).Set(worker.healthy || worker.other_role ? 1 : 0);
  }
  for (const auto& [address, kind] : gone) {
    registry_->Remove(Metric::kRouterWorkerUp, {address, std::string(WorkerKindName(kind))});
  }
}

}  // namespace baton
