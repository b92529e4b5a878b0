#pragma once

#include <functional>
#include <set>
#include <string>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/metrics/registry.h"
#include "router/placement/request_queue.h"

namespace baton {

// What the router tells its metrics of tenants. The names of the configuration and the first others
// that come have series of their own, and the rest are `other`, so that callers cannot make series
// without end. Thread-safe.
class TenantProbe final {
 public:
  // Names with series of their own; with `other` these are as many series as a metric may have.
  static constexpr size_t kMaxNames = MetricsRegistry::kMaxOpenSeries - 1;

  // `registry` must outlive this.
  explicit TenantProbe(MetricsRegistry* registry) : registry_(registry) {}

  void FirstToken(const std::string& tenant, base::Duration since_arrival);
  void Waited(const std::string& tenant, double seconds);
  void RequestEnded(const std::string& tenant, int32_t prompt_tokens, int32_t output_tokens);

  // Gives the tenants of `rules` names of their own, and shows at every scrape what `each` says.
  using Each =
      std::function<void(const std::function<void(const RequestQueue::TenantLoad& load)>& see)>;
  void Watch(const TenantRules& rules, Each each);

 private:
  // The value of the label for `tenant`.
  std::string LabelOf(const std::string& tenant);
  void ShowLoad(const Each& each);

  MetricsRegistry* const registry_;
  base::Mutex mutex_;
  std::set<std::string> named_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> shown_;  // the scrape's own
};

}  // namespace baton
