#include "common/worker/elastic_role.h"

#include <optional>
#include <string>
#include <vector>

#include "spdlog/spdlog.h"

namespace baton {

ElasticRole::ElasticRole(const RoleRuleOptions& options, WorkerRole begin, uint64_t number,
                         const base::Clock* clock, WorkerProbe* probe)
    : clock_(clock), probe_(probe), role_(begin), rule_(options, number, begin, clock->Now()) {
  probe_->RoleTaken(begin);
}

void ElasticRole::Hear(const RouterSeat& router, const ClusterView& view) {
  base::MutexLock lock(&mutex_);
  views_[router] = view;
}

void ElasticRole::Forget(const RouterSeat& router) {
  base::MutexLock lock(&mutex_);
  views_.erase(router);
}

void ElasticRole::LookAgain(base::TimerQueue* timers) {
  timers->After(kLookAtRolesEvery, [weak = weak_from_this(), timers] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->Look();
    self->LookAgain(timers);
  });
}

void ElasticRole::Look() {
  base::MutexLock lock(&mutex_);
  std::vector<ClusterView> views;
  for (const auto& [router, view] : views_) views.push_back(view);
  const RoleSignals signals = SignalsOf(views);
  probe_->RoleLooked(signals);
  const std::optional<RoleReason> reason = rule_.Look(views, clock_->Now());
  if (!reason) return;
  role_ = rule_.role();
  probe_->RoleTaken(role_);
  probe_->RoleChanged(role_, *reason);
  spdlog::info(
      "new requests are taken in the role {} from now on, because of {}: prompts wait {:.2f} s, "
      "prompts take {:.0f}% of prefill workers' time, decode workers are {:.0f}% full",
      std::string(WorkerRoleName(role_)), std::string(RoleReasonName(*reason)),
      signals.prompt_wait_s, 100 * signals.prefill_load, 100 * signals.decode_fill);
}

}  // namespace baton
