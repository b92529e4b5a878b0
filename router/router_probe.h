#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/eos/eos_log.h"
#include "common/http/http_server.h"
#include "common/metrics/load_log.h"
#include "common/metrics/registry.h"
#include "common/sample/params.h"
#include "router/edge/api_keys.h"
#include "router/edge/byte_budget.h"
#include "router/edge/work_pool.h"
#include "router/page/eos_figures.h"
#include "router/page/recent_figures.h"
#include "router/placement/placer.h"
#include "router/request/attempt_ledger.h"
#include "router/tenant_probe.h"

namespace baton {

// What a request came over.
enum class Transport { kGrpc, kHttp };

// How one request ended.
struct RequestFigures {
  FinishReason reason = FinishReason::kNone;
  bool rejected = false;  // refused before it ran
  absl::Status status;
  base::Duration total{};
  base::Duration slack{};                  // left of its deadline
  std::optional<double> queue_ms;          // all waiting; empty: it never could
  std::optional<base::Duration> decoding;  // first to last token, of two or more
  int32_t decoding_gaps = 0;               // between tokens, in that time
  int32_t prompt_tokens = 0;
  int32_t output_tokens = 0;
  std::optional<int32_t> natural_end_step;
  std::string tenant;  // of one that was not rejected
};

// What the router tells its metrics, one verb for each thing that happens. Thread-safe.
class RouterProbe final {
 public:
  // `registry` must outlive this.
  explicit RouterProbe(MetricsRegistry* registry);

  void RequestReceived(Transport transport);
  // A request was received, and refused before it became a flow.
  void RefusedAtTheDoor(const absl::Status& status);
  void RequestEnded(const RequestFigures& figures);
  // So many predictions of ends were not sent, for their clients read too slowly.
  void PredictionsDropped(size_t count);
  void MaxTokensAsked(int32_t max_tokens);
  void AskedToIgnoreEos(EosPolicy policy);

  // One request went from stage `from` to stage `to`, named as the label `stage` of the metrics. An
  // empty name means that it is in no stage, before it is queued or after its end.
  void StageChanged(std::string_view from, std::string_view to);
  void QueueRefused();
  void DiedInQueue();
  void Picked(Routing routing, base::Duration took, bool found);
  // What spoke for a placement, of a prompt of so many tokens, and, where the router looked, how
  // much of it is cached where it is computed.
  void Chosen(const Placement& placement, int64_t tokens, bool looked);

  void AttemptOpened(const Placement& placement);
  // An attempt goes on with an answer that a decode worker of other numerics began.
  void NumericsChanged();
  void AttemptEnded(AttemptOutcome outcome);
  void PrefillOfferedAgain(bool accepted);
  // A prefill worker was asked to build a pair of devices.
  void PairAsked(bool arrived);

  void FirstToken(const std::string& tenant, base::Duration since_arrival);
  // The first token of a further answer of a request, which has had its first token.
  void FirstOfFurther() { generated_.Increment(); }
  void NextToken(base::Duration since_last);
  // So many tokens came at once with the first one, as those of a search.
  void TokensBeside(int64_t count) { generated_.Increment(static_cast<double>(count)); }

  // What the router has done and has to do. A prompt counts when its request ends.
  LoadTotals Load() const;
  RecentFigures& recent() { return recent_; }
  EosFigures& eos() { return eos_; }

  // Keeps baton_eos_log_dropped_total and …_upkeep_failures_total in step with the log at every
  // scrape.
  void WatchEosLog(const EosLog* log);
  // Keeps baton_request_bytes_inflight in step with the budget at every scrape.
  void WatchBytes(const ByteBudget* budget);
  // Keeps baton_texts_waiting, their bytes and what was refused in step with the text pool at every
  // scrape.
  void WatchTexts(const WorkPool* pool);
  // Keeps baton_http_* in step with the server at every scrape, and baton_api_key_refusals_total
  // with the file.
  void WatchHttp(const HttpServer* server);
  void WatchKeys(const ApiKeyFile* keys);
  // Keeps baton_queue_oldest_wait_seconds in step with the queue at every scrape.
  void WatchQueue(std::function<base::Duration()> oldest_wait);
  // Keeps the load of tenants in step with the queue at every scrape.
  void WatchTenants(const TenantRules& rules, TenantProbe::Each each);
  // Keeps baton_router_worker_up in step with the directory at every scrape.
  void WatchWorkers(WorkerDirectory* directory);

 private:
  void CountEnd(const RequestFigures& figures);
  void UpdateWorkers(const std::vector<WorkerReport>& workers);

  MetricsRegistry* const registry_;
  prometheus::Counter& received_grpc_;
  prometheus::Counter& received_http_;
  prometheus::Gauge& inflight_;
  prometheus::Histogram& ttft_;
  prometheus::Histogram& inter_token_;
  prometheus::Histogram& queue_time_;
  prometheus::Gauge& waiting_;
  prometheus::Counter& generated_;
  prometheus::Counter& prompt_tokens_;
  prometheus::Counter& predictions_dropped_;
  std::vector<prometheus::Gauge*> running_stages_;
  std::atomic<uint64_t> answered_{0};
  std::atomic<uint64_t> failed_{0};
  TenantProbe tenants_;
  RecentFigures recent_;
  EosFigures eos_;
  std::set<std::pair<std::string, WorkerKind>> shown_workers_;  // the scrape's own
};

}  // namespace baton
