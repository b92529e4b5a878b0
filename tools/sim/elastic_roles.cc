#include "tools/sim/elastic_roles.h"

#include <utility>

namespace baton::simulator {

ElasticRoles::ElasticRoles(const ClusterSetup& setup, Timeline* timeline, const Fleet* fleet)
    : timeline_(timeline), routers_(fleet->routers.size()) {
  if (!setup.elastic) return;
  for (size_t i = 0; i < fleet->decode.size(); ++i) {
    const bool decodes = i < static_cast<size_t>(setup.workers);
    machines_.push_back(
        {.rule = RoleRule(setup.roles, /*number=*/i + 1,
                          decodes ? WorkerRole::kDecode : WorkerRole::kPrefill, timeline->now()),
         .views = {}});
  }
}

void ElasticRoles::Begin(std::function<bool()> over) {
  over_ = std::move(over);
  for (size_t i = 0; i < machines_.size(); ++i) {
    const base::Duration offset = kLookAtRolesEvery * static_cast<int64_t>(i + 1) /
                                  static_cast<int64_t>(machines_.size() + 1);
    timeline_->After(offset, [this, i] { Tick(i); });
  }
}

void ElasticRoles::Hear(size_t worker, size_t router, const ClusterView& view) {
  Machine& machine = machines_[worker];
  machine.views.resize(routers_);
  machine.views[router] = view;
}

bool ElasticRoles::Serves(WorkerKind kind, size_t worker) const {
  const WorkerRole role = kind == WorkerKind::kPrefill ? WorkerRole::kPrefill : WorkerRole::kDecode;
  return machines_.empty() || machines_[worker].rule.role() == role;
}

void ElasticRoles::Tick(size_t machine) {
  if (over_()) return;
  timeline_->After(kLookAtRolesEvery, [this, machine] { Tick(machine); });
  Machine& self = machines_[machine];
  if (self.rule.Look(self.views, timeline_->now())) ++changes_;
}

}  // namespace baton::simulator
