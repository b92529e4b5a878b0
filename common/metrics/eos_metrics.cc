#include "common/metrics/metric_table.h"

namespace baton {

std::vector<MetricInfo> EosMetrics() {
  return {
      {.id = Metric::kEosStepProbability,
       .name = "baton_eos_step_probability",
       .type = MetricType::kHistogram,
       .owners = kWorkersOwn,
       .labels = {},
       .buckets = ProbabilityBuckets(),
       .help = "eos_prob of every sampled token.",
       .precreated = {}},
      {.id = Metric::kEosProbabilityAtStop,
       .name = "baton_eos_probability_at_stop",
       .type = MetricType::kHistogram,
       .owners = kWorkersOwn,
       .labels = {},
       .buckets = ProbabilityBuckets(),
       .help = "eos_prob of the step that drew EOS and ended its sequence.",
       .precreated = {}},
      {.id = Metric::kEosIgnoredSteps,
       .name = "baton_eos_ignored_steps_total",
       .type = MetricType::kCounter,
       .owners = kWorkersOwn,
       .labels = {},
       .buckets = {},
       .help = "Steps under an ignore policy at which EOS was the most likely token.",
       .precreated = {}},
      {.id = Metric::kEosFirstNaturalPosition,
       .name = "baton_eos_first_natural_position_tokens",
       .type = MetricType::kHistogram,
       .owners = kRouterOwns,
       .labels = {},
       .buckets = LengthBuckets(),
       .help = "Step at which a request that ignores EOS would have ended by itself.",
       .precreated = {}},
      {.id = Metric::kIgnoreEosRequests,
       .name = "baton_ignore_eos_requests_total",
       .type = MetricType::kCounter,
       .owners = kRouterOwns,
       .labels = {{"policy", {"continue", "mask"}}},
       .buckets = {},
       .help = "Requests that asked to ignore EOS.",
       .precreated = {}},
  };
}

}  // namespace baton
