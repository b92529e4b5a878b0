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
       .help = "1 while the worker's status stream lives and it takes requests, else 0; `role` is "
               "the router's own.",
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
       .labels = {{"policy", {"power_of_two"}}, {"outcome", {"picked", "none"}}},
       .buckets = {},
       .help = "Choices of an attempt's workers; none: nobody could take it now.",
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
       .help = "Attempts on a pair of workers whose numerics differ, so that tokens may differ "
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
  };
}

}  // namespace baton
