// What routers say to a worker over their Watches, and what it makes of that: how many places it
// lends to each, and in which role it takes requests.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "baton/worker/v1/status.pb.h"
#include "common/roles/role_rule.h"
#include "common/sched/place_shares.h"
#include "common/worker/watch_request.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/wire.h"

namespace baton::fuzz {
namespace {

using base::Duration;
using base::Instant;

constexpr Instant kBegin{std::chrono::hours(1)};
constexpr int kRouters = 3;
// Between two messages workers look so often at their roles, which is a second.
constexpr int kLooks = 4;

int64_t Beyond(int64_t share, const Claim& claim) {
  return std::max<int64_t>(0, share - claim.held);
}

// What is lent beyond what routers hold is what there is beyond that, no more and no less; and
// where nobody holds anything everyone gets what he wants as far as an equal part goes.
void CheckLent(int64_t capacity, const std::vector<Claim>& claims,
               const std::vector<int64_t>& shares) {
  int64_t held = 0, lent = 0;
  for (size_t i = 0; i < claims.size(); ++i) {
    BATON_CHECK(0 <= shares[i] && shares[i] <= capacity) << shares[i] << " of " << capacity;
    held += claims[i].held;
    lent += Beyond(shares[i], claims[i]);
  }
  BATON_CHECK(lent == std::max<int64_t>(0, capacity - held))
      << lent << " lent of " << capacity << ", of which " << held << " are held";
  if (held > 0) return;
  const int64_t part = capacity / std::ssize(claims);
  for (size_t i = 0; i < claims.size(); ++i) {
    BATON_CHECK(shares[i] >= std::min(claims[i].wanted, part)) << shares[i];
  }
}

// The places of one worker, which three routers ask for.
class Lender final {
 public:
  Lender(LoanTurns turns, const PlaceCapacity& capacity) : shares_(turns), capacity_(capacity) {}

  void Hear(int router, const PlaceShares::Demand& demand) {
    if (!ids_.contains(router)) ids_[router] = shares_.Join();
    demands_[router] = demand;
    shares_.SetDemand(ids_[router], demand);
  }
  void Forget(int router) {
    if (!ids_.contains(router)) return;
    shares_.Leave(ids_[router]);
    BATON_CHECK(shares_.Of(ids_[router], capacity_, kBegin).places == 0);
    ids_.erase(router);
    demands_.erase(router);
  }
  void Check(Instant now) {
    std::vector<PlaceShares::Share> told;
    // Places may go on to the next router while they are asked for, once at a moment.
    for (int sweep = 0; sweep < 2; ++sweep) {
      told.clear();
      for (const auto& [router, id] : ids_) told.push_back(shares_.Of(id, capacity_, now));
    }
    if (told.empty()) return;
    std::vector<Claim> places, tokens;
    std::vector<int64_t> place_shares, token_shares;
    int64_t held = 0;
    for (const auto& [router, demand] : demands_) {
      places.push_back(demand.places);
      tokens.push_back(demand.prompt_tokens);
      held += demand.places.held;
    }
    for (const PlaceShares::Share& share : told) {
      place_shares.push_back(share.places);
      token_shares.push_back(share.prompt_tokens);
    }
    BATON_CHECK(shares_.held() == held) << shares_.held() << " and " << held;
    CheckLent(capacity_.places, places, place_shares);
    CheckLent(int64_t{2} * capacity_.step_prompt_tokens, tokens, token_shares);
  }

 private:
  PlaceShares shares_;
  const PlaceCapacity capacity_;
  std::map<int, PlaceShares::RouterId> ids_;
  std::map<int, PlaceShares::Demand> demands_;  // of the same routers
};

// A worker of both roles.
struct Elastic {
  uint64_t number = 0;
  RoleRule rule;
  std::optional<Instant> changed = std::nullopt;
};

bool SeesOneThatStays(const ClusterView& view, WorkerRole role, uint64_t number) {
  const RoleView& own = view.of(role);
  BATON_CHECK((own.lowest == 0) == (own.highest == 0) && own.lowest <= own.highest);
  if (role == WorkerRole::kDecode) {
    return number == own.highest && (own.fixed || (0 < own.lowest && own.lowest < number));
  }
  return number == own.lowest && (own.fixed || own.highest > number || view.decode.workers == 0);
}

// Whoever changes sees that another stays, and did not change a moment ago.
void CheckChange(const Elastic& worker, const std::vector<ClusterView>& views, WorkerRole before,
                 RoleReason reason, Instant now) {
  BATON_CHECK(worker.rule.role() == OtherRole(before));
  BATON_CHECK(!views.empty());
  int32_t others = 0;
  for (const ClusterView& view : views) {
    BATON_CHECK(SeesOneThatStays(view, before, worker.number)) << worker.number;
    others = std::max(others, view.of(OtherRole(before)).workers);
  }
  BATON_CHECK((reason == RoleReason::kNobody) == (others == 0)) << RoleReasonName(reason);
  if (reason == RoleReason::kNobody) return;
  BATON_CHECK((reason == RoleReason::kPrompts) == (before == WorkerRole::kDecode));
  const Duration stayed = now - worker.changed.value_or(kBegin);
  BATON_CHECK(stayed >= RoleRuleOptions().cool_down);
}

// Workers that hear the same, and none of which asks another.
class Roles final {
 public:
  void Hear(int router, const ClusterView& view) { views_[router] = view; }
  void Forget(int router) { views_.erase(router); }
  void Look(Instant now) {
    std::vector<ClusterView> views;
    for (const auto& [router, view] : views_) views.push_back(view);
    const RoleSignals signals = SignalsOf(views);
    for (const double signal : {signals.prompt_wait_s, signals.prefill_load, signals.decode_fill}) {
      BATON_CHECK(std::isfinite(signal) && signal >= 0) << signal;
    }
    std::map<WorkerRole, int> left;
    for (Elastic& worker : workers_) {
      const WorkerRole before = worker.rule.role();
      const std::optional<RoleReason> reason = worker.rule.Look(views, now);
      BATON_CHECK(reason.has_value() == (worker.rule.role() != before));
      if (!reason) continue;
      CheckChange(worker, views, before, *reason, now);
      worker.changed = now;
      ++left[before];
    }
    for (const auto& [role, count] : left) BATON_CHECK(count == 1) << WorkerRoleName(role);
  }

 private:
  static Elastic Of(uint64_t number, WorkerRole begin) {
    return {.number = number, .rule = RoleRule({}, number, begin, kBegin)};
  }
  // Their numbers are digits, so that a corpus can name them.
  std::array<Elastic, 4> workers_ = {Of(2, WorkerRole::kDecode), Of(4, WorkerRole::kDecode),
                                     Of(5, WorkerRole::kPrefill), Of(7, WorkerRole::kPrefill)};
  std::map<int, ClusterView> views_;
};

PlaceCapacity CapacityOf(unsigned choice) {
  if (choice == 0) return {.places = 16, .seats = 16, .step_prompt_tokens = 512};
  if (choice == 1) {
    return {.places = 2, .short_of_blocks = true, .seats = 16, .step_prompt_tokens = 1};
  }
  return {};
}

}  // namespace

// Behind the worker's capacity a message in each section, of the router that its first digit names;
// digits from 3 on end the Watch of one.
FUZZ_TARGET(watch_request) {
  const PlaceCapacity capacity = CapacityOf(TakeChoice(&input, 3));
  std::array lenders = {Lender(LoanTurns::kQuick, capacity), Lender(LoanTurns::kSlow, capacity)};
  Roles roles;
  Instant now = kBegin;
  while (!input.empty()) {
    std::string_view section = TakeSection(&input);
    const unsigned choice = TakeChoice(&section, 2 * kRouters);
    const int router = static_cast<int>(choice) % kRouters;
    if (choice >= kRouters) {
      for (Lender& lender : lenders) lender.Forget(router);
      roles.Forget(router);
      continue;
    }
    worker::v1::WatchRequest request;
    if (!request.ParseFromArray(section.data(), static_cast<int>(section.size()))) continue;
    if (request.has_demand()) {
      for (Lender& lender : lenders) lender.Hear(router, DemandFromProto(request.demand()));
    }
    if (request.has_cluster()) {
      roles.Hear(router, ClusterFromProto(request.cluster()));
    } else {
      roles.Forget(router);
    }
    for (Lender& lender : lenders) lender.Check(now);
    for (int look = 0; look < kLooks; ++look, now += kLookAtRolesEvery) roles.Look(now);
  }
}

}  // namespace baton::fuzz
