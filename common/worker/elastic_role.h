#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/timer_queue.h"
#include "common/roles/role_rule.h"
#include "common/sched/place_shares.h"
#include "common/worker/worker_probe.h"

namespace baton {

// A router's watch of a worker for one of its roles.
struct RouterSeat {
  WorkerRole role = WorkerRole::kDecode;
  PlaceShares::RouterId id = 0;  // 0: it does not watch
  friend auto operator<=>(const RouterSeat&, const RouterSeat&) = default;
};

// The role in which an elastic worker takes new requests: a RoleRule, what routers told it, and the
// timer by which it looks. What the worker has it finishes in any role. Thread-safe.
class ElasticRole final : public std::enable_shared_from_this<ElasticRole> {
 public:
  // `clock` and `probe` outlive this.
  ElasticRole(const RoleRuleOptions& options, WorkerRole begin, uint64_t number,
              const base::Clock* clock, WorkerProbe* probe);

  WorkerRole role() const { return role_; }
  void Hear(const RouterSeat& router, const ClusterView& view);
  // The router watches no longer.
  void Forget(const RouterSeat& router);
  // Looks in a while, and again and again, on the thread of `timers`.
  void LookAgain(base::TimerQueue* timers);

 private:
  void Look();

  const base::Clock* const clock_;
  WorkerProbe* const probe_;
  std::atomic<WorkerRole> role_;
  base::Mutex mutex_;
  RoleRule rule_ ABSL_GUARDED_BY(mutex_);
  std::map<RouterSeat, ClusterView> views_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton
