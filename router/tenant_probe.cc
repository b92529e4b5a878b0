#include "router/tenant_probe.h"

#include <map>
#include <utility>

namespace baton {

std::string TenantProbe::LabelOf(const std::string& tenant) {
  base::MutexLock lock(&mutex_);
  if (named_.contains(tenant)) return tenant;
  if (named_.size() >= kMaxNames) return "other";
  named_.insert(tenant);
  return tenant;
}

void TenantProbe::FirstToken(const std::string& tenant, base::Duration since_arrival) {
  registry_->histogram(Metric::kTenantTimeToFirstToken, {LabelOf(tenant)})
      .Observe(base::Seconds(since_arrival));
}

void TenantProbe::Waited(const std::string& tenant, double seconds) {
  registry_->histogram(Metric::kTenantQueueTime, {LabelOf(tenant)}).Observe(seconds);
}

void TenantProbe::RequestEnded(const std::string& tenant, int32_t prompt_tokens,
                               int32_t output_tokens) {
  const std::string label = LabelOf(tenant);
  registry_->counter(Metric::kTenantPromptTokens, {label}).Increment(prompt_tokens);
  registry_->counter(Metric::kTenantGenerationTokens, {label}).Increment(output_tokens);
}

void TenantProbe::Watch(const TenantRules& rules, Each each) {
  for (const auto& [tenant, rule] : rules.named) LabelOf(tenant);
  registry_->OnScrape([this, each = std::move(each)] { ShowLoad(each); });
}

void TenantProbe::ShowLoad(const Each& each) {
  // Who has nothing here is shown with nothing.
  std::map<std::string, std::pair<int64_t, int64_t>> loads;
  for (const std::string& label : shown_) loads[label] = {0, 0};
  each([&](const RequestQueue::TenantLoad& load) {
    auto& [waiting, running] = loads[LabelOf(load.tenant)];
    waiting += load.waiting;
    running += load.running;
  });
  for (const auto& [label, load] : loads) {
    shown_.insert(label);
    registry_->gauge(Metric::kTenantRequestsWaiting, {label}).Set(static_cast<double>(load.first));
    registry_->gauge(Metric::kTenantRequestsRunning, {label}).Set(static_cast<double>(load.second));
  }
}

}  // namespace baton
