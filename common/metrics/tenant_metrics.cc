#include <utility>

#include "common/metrics/metric_table.h"

namespace baton {
namespace {

MetricInfo OfTenants(Metric id, MetricType type, std::string name, std::vector<double> buckets,
                     std::string help) {
  return {.id = id,
          .name = std::move(name),
          .type = type,
          .owners = kRouterOwns,
          .labels = {{"tenant", {}}},
          .buckets = std::move(buckets),
          .help = std::move(help),
          .precreated = {}};
}

}  // namespace

std::vector<MetricInfo> TenantMetrics() {
  return {
      OfTenants(
          Metric::kTenantRequestsWaiting, MetricType::kGauge, "baton_tenant_requests_waiting", {},
          "Requests of the tenant in the router's queue. Tenants of the configuration, and the "
          "first others, have series of their own; the rest is `other`."),
      OfTenants(Metric::kTenantRequestsRunning, MetricType::kGauge, "baton_tenant_requests_running",
                {}, "Requests of the tenant that this router has at workers."),
      OfTenants(Metric::kTenantPromptTokens, MetricType::kCounter,
                "baton_tenant_prompt_tokens_total", {},
                "Prompt tokens of the tenant's finished requests."),
      OfTenants(Metric::kTenantGenerationTokens, MetricType::kCounter,
                "baton_tenant_generation_tokens_total", {},
                "Output tokens of the tenant's finished requests."),
      OfTenants(Metric::kTenantTimeToFirstToken, MetricType::kHistogram,
                "baton_tenant_time_to_first_token_seconds", FirstTokenBuckets(),
                "From the arrival of the tenant's requests to their first tokens."),
      OfTenants(Metric::kTenantQueueTime, MetricType::kHistogram, "baton_tenant_queue_time_seconds",
                RequestBuckets(),
                "All waiting of the tenant's requests before their prompts were computed; told at "
                "their ends."),
  };
}

}  // namespace baton
