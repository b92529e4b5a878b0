#include "common/metrics/metric_table.h"

namespace baton {

std::vector<MetricInfo> RouterMetrics() {
  return {
      {.id = Metric::kRouterWorkerUp,
       .name = "baton_router_worker_up",
       .type = MetricType::kGauge,
       .owners = kRouterOwns,
       .labels = {{"worker", {}}, {"worker_role", {"prefill", "decode"}}},
       .buckets = {},
       .help =
           "1 while the worker's status stream is open and it takes requests (of either role, if "
           "it serves both), else 0; `worker_role` is the worker's role, `role` the router's "
           "own.",
       .precreated = {}},
      {.id = Metric::kRouterPickDuration,
       .name = "baton_router_pick_duration_seconds",
       .type = MetricType::kHistogram,
       .owners = kRouterOwns,
       .labels = {},
       .buckets = ShortTimeBuckets(),
       .help = "Time to choose the workers of an attempt.",
       .precreated = {}},
      {.id = Metric::kRouterPicks,
       .name = "baton_router_picks_total",
       .type = MetricType::kCounter,
       .owners = kRouterOwns,
       .labels = {{"policy", {"load", "prefix", "remaining", "score"}},
                  {"outcome", {"picked", "none"}}},
       .buckets = {},
       .help =
           "Choices of an attempt's workers, by what --routing names; none: nobody could take it "
           "now.",
       .precreated = {}},
      {.id = Metric::kRouterChoices,
       .name = "baton_router_choices_total",
       .type = MetricType::kCounter,
       .owners = kRouterOwns,
       .labels = {{"chosen_by", {"only", "load", "prefix", "remaining"}}},
       .buckets = {},
       .help =
           "Decode workers that were chosen, by what spoke for them: there was no other; it was "
           "less busy; it holds more of the prompt than the least busy one; it is expected to "
           "have room sooner.",
       .precreated = {}},
      {.id = Metric::kRouterCachedShare,
       .name = "baton_router_cached_share",
       .type = MetricType::kHistogram,
       .owners = kRouterOwns,
       .labels = {},
       .buckets = {0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1},
       .help = "Share of an attempt's prompt that the router believes to be in the prefix cache of "
               "the worker that computes it; of routers that look at caches only.",
       .precreated = {}},
      {.id = Metric::kRouterKnownCachedBlocks,
       .name = "baton_router_known_cached_blocks",
       .type = MetricType::kGauge,
       .owners = kRouterOwns,
       .labels = {},
       .buckets = {},
       .help = "Blocks in prefix caches that this router knows of, over all workers: reported, or "
               "sent there a moment ago.",
       .precreated = {}},
      {.id = Metric::kRouterWorkerRetries,
       .name = "baton_router_worker_retries_total",
       .type = MetricType::kCounter,
       .owners = kRouterOwns,
       .labels = {{"outcome", {"accepted", "refused"}}},
       .buckets = {},
       .help = "Prefills refused before any work and offered to another prefill worker under the "
               "same reservation.",
       .precreated = {}},
      {.id = Metric::kRouterNumericsMismatch,
       .name = "baton_router_numerics_mismatch_total",
       .type = MetricType::kCounter,
       .owners = kRouterOwns,
       .labels = {},
       .buckets = {},
       .help = "Attempts on a pair of workers whose numerics differ, and attempts that go on with "
               "an answer that a decode worker of other numerics began, so that tokens may differ "
               "from a run on equal ones.",
       .precreated = {}},
      {.id = Metric::kRouterPairWarmups,
       .name = "baton_router_pair_warmups_total",
       .type = MetricType::kCounter,
       .owners = kRouterOwns,
       .labels = {{"outcome", {"asked", "failed"}}},
       .buckets = {},
       .help = "Prefill workers asked to build a pair of devices to the chosen decode worker; "
               "failed: the question did not arrive. Pushes go by gRPC meanwhile.",
       .precreated = {}},
      {.id = Metric::kHttpConnections,
       .name = "baton_http_connections",
       .type = MetricType::kGauge,
       .owners = kRouterOwns,
       .labels = {},
       .buckets = {},
       .help = "Open connections of the HTTP port, idle ones too.",
       .precreated = {}},
      {.id = Metric::kHttpConnectionsRefused,
       .name = "baton_http_connections_refused_total",
       .type = MetricType::kCounter,
       .owners = kRouterOwns,
       .labels = {},
       .buckets = {},
       .help = "Connections to the HTTP port that found --http-max-connections taken and none of "
               "them idle.",
       .precreated = {}},
      {.id = Metric::kHttpAnswers,
       .name = "baton_http_answers_total",
       .type = MetricType::kCounter,
       .owners = kRouterOwns,
       .labels = {{"class", {"1xx", "2xx", "3xx", "4xx", "5xx"}}},
       .buckets = {},
       .help = "Answers of the HTTP port by the class of their status; a stream counts when it "
               "begins.",
       .precreated = {}},
      {.id = Metric::kHttpRefusals,
       .name = "baton_http_refusals_total",
       .type = MetricType::kCounter,
       .owners = kRouterOwns,
       .labels = {{"status",
                   {"400", "401", "403", "404", "405", "408", "413", "415", "417", "429", "431",
                    "501", "503", "other"}}},
       .buckets = {},
       .help = "Requests over HTTP that were refused by their header, or while their body came: "
               "they are in no other count of requests, but their answers are among all answers.",
       .precreated = {}},
      {.id = Metric::kApiKeyRefusals,
       .name = "baton_api_key_refusals_total",
       .type = MetricType::kCounter,
       .owners = kRouterOwns,
       .labels = {},
       .buckets = {},
       .help =
           "Calls without a key that is known, over gRPC and HTTP, of a router with --api-keys.",
       .precreated = {}},
  };
}

}  // namespace baton
