#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "common/base/clock.h"
#include "common/roles/role_rule.h"
#include "router/workers/worker_view.h"
#include "tools/sim/cluster.h"
#include "tools/sim/fleet.h"
#include "tools/sim/timeline.h"

namespace baton::simulator {

// Which role each worker of an elastic cluster has: the rule that is served, and what routers told
// each worker last, as ElasticRole has them.
class ElasticRoles final {
 public:
  // In a cluster that is not elastic every worker serves what it is listed for.
  ElasticRoles(const ClusterSetup& setup, Timeline* timeline, const Fleet* fleet);
  ElasticRoles(const ElasticRoles&) = delete;
  ElasticRoles& operator=(const ElasticRoles&) = delete;

  // Decides until `over`.
  void Begin(std::function<bool()> over);
  // What a router tells a worker of all of them.
  void Hear(size_t worker, size_t router, const ClusterView& view);
  // Whether that worker gets new work of that kind.
  bool Serves(WorkerKind kind, size_t worker) const;
  bool on() const { return !machines_.empty(); }
  uint64_t changes() const { return changes_; }

 private:
  struct Machine {
    RoleRule rule;
    std::vector<ClusterView> views;  // by router; empty until the first one told something
  };
  void Tick(size_t machine);

  Timeline* const timeline_;
  const size_t routers_;
  std::function<bool()> over_;
  std::vector<Machine> machines_;
  uint64_t changes_ = 0;
};

}  // namespace baton::simulator
