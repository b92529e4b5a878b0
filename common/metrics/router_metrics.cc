#include <algorithm>
#include <iterator>

#include "common/metrics/metric_table.h"

namespace baton {
namespace {

MetricInfo Listed(MetricInfo row) {
  row.listed = true;
  return row;
}

// Which workers there are, and how those of an attempt are chosen.
std::vector<MetricInfo> Choices() {
  return {
      Listed(Row(
          Metric::kRouterWorkerUp, MetricType::kGauge, kRouterOwns, "baton_router_worker_up",
          "1 while the worker's status stream is open and it takes requests (of either role, if "
          "it serves both), else 0; `worker_role` is the worker's role, `role` the router's "
          "own.",
          {{"worker", {}}, {"worker_role", {"prefill", "decode"}}})),
      RouterHistogram(Metric::kRouterPickDuration, "baton_router_pick_duration_seconds",
                      ShortTimeBuckets(), "Time to choose the workers of an attempt."),
      Row(Metric::kRouterPicks, MetricType::kCounter, kRouterOwns, "baton_router_picks_total",
          "Choices of an attempt's workers, by what --routing names; none: nobody could take it "
          "now.",
          {{"policy", {"load", "prefix", "remaining", "score"}}, {"outcome", {"picked", "none"}}}),
      Row(Metric::kRouterChoices, MetricType::kCounter, kRouterOwns, "baton_router_choices_total",
          "Decode workers that were chosen, by what spoke for them: there was no other; it was "
          "less busy; it holds more of the prompt than the least busy one; it is expected to "
          "have room sooner.",
          {{"chosen_by", {"only", "load", "prefix", "remaining"}}}),
      RouterHistogram(
          Metric::kRouterCachedShare, "baton_router_cached_share",
          {0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1},
          "Share of an attempt's prompt that the router believes to be in the prefix cache of "
          "the worker that computes it; of routers that look at caches only."),
      Row(Metric::kRouterKnownCachedBlocks, MetricType::kGauge, kRouterOwns,
          "baton_router_known_cached_blocks",
          "Blocks in prefix caches that this router knows of, over all workers: reported, or "
          "sent there a moment ago.")};
}

// What becomes of attempts beyond that.
std::vector<MetricInfo> Attempts() {
  return {Row(Metric::kRouterWorkerRetries, MetricType::kCounter, kRouterOwns,
              "baton_router_worker_retries_total",
              "Prefills refused before any work and offered to another prefill worker under the "
              "same reservation.",
              {{"outcome", {"accepted", "refused"}}}),
          Row(Metric::kRouterNumericsMismatch, MetricType::kCounter, kRouterOwns,
              "baton_router_numerics_mismatch_total",
              "Attempts on a pair of workers whose numerics differ, and attempts that go on with "
              "an answer that a decode worker of other numerics began, so that tokens may differ "
              "from a run on equal ones."),
          Row(Metric::kRouterPairWarmups, MetricType::kCounter, kRouterOwns,
              "baton_router_pair_warmups_total",
              "Prefill workers asked to build a pair of devices to the chosen decode worker; "
              "failed: the question did not arrive. Pushes go by gRPC meanwhile.",
              {{"outcome", {"asked", "failed"}}})};
}

// The HTTP port, and keys of callers.
std::vector<MetricInfo> Callers() {
  return {
      Row(Metric::kHttpConnections, MetricType::kGauge, kRouterOwns, "baton_http_connections",
          "Open connections of the HTTP port, idle ones too."),
      Row(Metric::kHttpConnectionsRefused, MetricType::kCounter, kRouterOwns,
          "baton_http_connections_refused_total",
          "Connections to the HTTP port that found --http-max-connections taken, all of them by "
          "requests that were being answered."),
      Row(Metric::kHttpAnswers, MetricType::kCounter, kRouterOwns, "baton_http_answers_total",
          "Answers of the HTTP port by the class of their status; a stream counts when it "
          "begins.",
          {{"class", {"1xx", "2xx", "3xx", "4xx", "5xx"}}}),
      Row(Metric::kHttpRefusals, MetricType::kCounter, kRouterOwns, "baton_http_refusals_total",
          "Requests over HTTP that were refused by their header, or while their body came: "
          "they are in no other count of requests, but their answers are among all answers.",
          {{"status",
            {"400", "401", "403", "404", "405", "408", "413", "415", "417", "429", "431", "501",
             "503", "other"}}}),
      Row(Metric::kApiKeyRefusals, MetricType::kCounter, kRouterOwns,
          "baton_api_key_refusals_total",
          "Calls without a key that is known, over gRPC and HTTP, of a router with --api-keys.")};
}

}  // namespace

std::vector<MetricInfo> RouterMetrics() {
  std::vector<MetricInfo> rows = Choices();
  std::ranges::move(Attempts(), std::back_inserter(rows));
  std::ranges::move(Callers(), std::back_inserter(rows));
  return rows;
}

}  // namespace baton
