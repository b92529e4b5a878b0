#include "common/worker/watch_request.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace baton {
namespace {

int64_t Bounded(int64_t value) { return std::clamp<int64_t>(value, 0, int64_t{1} << 40); }
double Finite(double value) { return std::isfinite(value) ? std::clamp(value, 0.0, 1e9) : 0; }

Claim ClaimOf(int64_t held, int64_t wanted) {
  return {.held = Bounded(held), .wanted = Bounded(wanted)};
}

RoleView RoleViewFromProto(const worker::v1::RoleView& view) {
  // One without the other names nobody, and a worker must not take it for another one that stays.
  const bool named = 0 < view.lowest() && view.lowest() <= view.highest();
  return {.workers = std::clamp(view.workers(), 0, 1 << 20),
          .fixed = view.fixed(),
          .lowest = named ? view.lowest() : 0,
          .highest = named ? view.highest() : 0,
          .queued_prompt_tokens = Bounded(view.queued_prompt_tokens()),
          .fill = Finite(view.fill())};
}

}  // namespace

PlaceShares::Demand DemandFromProto(const worker::v1::Demand& demand) {
  return {.places = ClaimOf(demand.places_held(), demand.places_wanted()),
          .prompt_tokens = ClaimOf(demand.prompt_tokens_held(), demand.prompt_tokens_wanted())};
}

ClusterView ClusterFromProto(const worker::v1::Cluster& cluster) {
  return {.prefill = RoleViewFromProto(cluster.prefill()),
          .decode = RoleViewFromProto(cluster.decode()),
          .waiting_prompt_tokens = Bounded(cluster.waiting_prompt_tokens()),
          .prompt_token_s = Finite(cluster.prompt_token_seconds()),
          .prompt_load = Finite(cluster.prompt_load())};
}

}  // namespace baton
