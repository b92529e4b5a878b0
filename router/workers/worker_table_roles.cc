// What a WorkerTable says of elastic workers, and to them of all workers of their model.
#include <algorithm>
#include <set>
#include <utility>

#include "router/workers/worker_table.h"

namespace baton {

bool WorkerTable::MayChangeRole(const std::string& address) const {
  return std::ranges::all_of(kWorkerKinds, [&](WorkerKind kind) {
    const Entry* const entry = At(kind, address);
    return entry != nullptr && entry->listed && (entry->accepted || !entry->known);
  });
}

std::set<uint64_t> WorkerTable::Changing() const {
  std::set<uint64_t> changing;
  for (const WorkerKind kind : kWorkerKinds) {
    for (const auto& [address, entry] : Of(kind).by_address) {
      const WorkerFacts& facts = entry->view.facts;
      if (facts.kinds.size() > 1 && MayChangeRole(address)) changing.insert(facts.incarnation);
    }
  }
  return changing;
}

RoleView WorkerTable::RoleOf(WorkerKind kind, const std::string& fingerprint,
                             base::Instant now) const {
  const std::set<uint64_t> changing = Changing();
  RoleView role;
  for (const WorkerView* const view : Healthy(kind, now)) {
    if (view->facts.fingerprint != fingerprint) continue;
    const WorkerLoad& load = At(kind, view->address)->load;
    ++role.workers;
    role.queued_prompt_tokens += load.queued_prompt_tokens;
    role.fill += load.fill;
    const uint64_t number = view->facts.incarnation;
    if (!changing.contains(number)) {
      role.fixed = true;
    } else {
      role.lowest = role.lowest == 0 ? number : std::min(role.lowest, number);
      role.highest = std::max(role.highest, number);
    }
  }
  return role;
}

ClusterView WorkerTable::ClusterOf(const std::string& fingerprint, base::Instant now) const {
  ClusterView cluster{.prefill = RoleOf(WorkerKind::kPrefill, fingerprint, now),
                      .decode = RoleOf(WorkerKind::kDecode, fingerprint, now)};
  int32_t known = 0;
  for (const auto& [address, entry] : Of(WorkerKind::kPrefill).by_address) {
    if (entry->view.facts.fingerprint != fingerprint || now > entry->view.fresh_until) continue;
    cluster.prompt_load += entry->load.prompt_load;
    const double token_s = entry->load.prompt_times.token_s;
    if (token_s <= 0) continue;
    ++known;
    cluster.prompt_token_s += (token_s - cluster.prompt_token_s) / known;
  }
  return cluster;
}

}  // namespace baton
