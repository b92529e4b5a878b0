#include "router/edge/tenant_lines.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace baton {

absl::StatusOr<TenantLines::Share> TenantLines::Take(const std::string& tenant, int32_t requests) {
  const int32_t most = rules_.Of(tenant).max_queued;
  if (most == 0) return Share();
  base::MutexLock lock(&mutex_);
  const auto found = waiting_.find(tenant);
  const int32_t have = found == waiting_.end() ? 0 : found->second;
  if (have + requests > most) {
    return MakeError(absl::StatusCode::kResourceExhausted,
                     {.reason = Reason::kQueueFull,
                      .values = {{"tenant", tenant},
                                 {"have", absl::StrCat(have)},
                                 {"limit", absl::StrCat(most)}},
                      .retry_after = std::chrono::milliseconds(1000)},
                     absl::StrCat(have, " requests of tenant '", tenant,
                                  "' wait already and the limit is ", most, "; try again later"));
  }
  waiting_[tenant] = have + requests;
  return Share(this, tenant, requests);
}

void TenantLines::GiveBack(const std::string& tenant, int32_t requests) {
  base::MutexLock lock(&mutex_);
  const auto found = waiting_.find(tenant);
  found->second -= requests;
  if (found->second == 0) waiting_.erase(found);
}

}  // namespace baton
