#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "router/router_options.h"

namespace baton {

// How many requests of each tenant wait for their first place at workers, wherever in the router
// they do: for the text pool, on it, or in the queue. A request takes its share at the door and
// gives it back when it has that place, or ends. Thread-safe.
class TenantLines final {
 public:
  class Share;

  explicit TenantLines(TenantRules rules) : rules_(std::move(rules)) {}
  TenantLines(const TenantLines&) = delete;
  TenantLines& operator=(const TenantLines&) = delete;

  // RESOURCE_EXHAUSTED, QUEUE_FULL with tenant, both numbers and RetryInfo, when that many more are
  // beyond the tenant's max_queued. Every share is given back before this ends.
  absl::StatusOr<Share> Take(const std::string& tenant, int32_t requests);

 private:
  void GiveBack(const std::string& tenant, int32_t requests);

  const TenantRules rules_;
  base::Mutex mutex_;
  std::map<std::string, int32_t> waiting_ ABSL_GUARDED_BY(mutex_);  // of tenants with a bound
};

// What one request counts for.
class TenantLines::Share final {
 public:
  Share() = default;
  ~Share() {
    if (lines_ != nullptr) lines_->GiveBack(tenant_, requests_);
  }
  int32_t requests() const { return requests_; }
  // Counts for what `more` of the same tenant counted for, too.
  void Join(Share more) {
    if (lines_ == nullptr) return std::swap(*this, more);
    requests_ += more.requests_;
    more.lines_ = nullptr;
  }
  Share(Share&& other) noexcept { *this = std::move(other); }
  Share& operator=(Share&& other) noexcept {
    std::swap(lines_, other.lines_);
    std::swap(tenant_, other.tenant_);
    std::swap(requests_, other.requests_);
    return *this;
  }

 private:
  friend class TenantLines;
  Share(TenantLines* lines, std::string tenant, int32_t requests)
      : lines_(lines), tenant_(std::move(tenant)), requests_(requests) {}

  TenantLines* lines_ = nullptr;  // null: counts for nothing
  std::string tenant_;
  int32_t requests_ = 0;
};

}  // namespace baton
