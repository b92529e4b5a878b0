#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "common/base/clock.h"
#include "common/roles/role_view.h"

namespace baton {

struct RoleRuleOptions {
  // After a change the worker that changed does not change again for so long. Any change, of
  // whomever, is let settle before the next one.
  base::Duration cool_down = std::chrono::seconds(5);
  base::Duration settle = std::chrono::seconds(1);
  // What is too much for those that there are, and what the others may have after a change.
  double prompt_wait_s = 0.2;
  double decode_fill = 0.8;
  double others = 0.85;
};
// How often a worker looks whether it should change.
inline constexpr base::Duration kLookAtRolesEvery = std::chrono::milliseconds(250);

// Why a worker changed its role.
enum class RoleReason {
  kPrompts,  // prompts waited too long
  kPlaces,   // places of decode workers, or their time between tokens, ran out
  kNobody,   // nobody took requests in the other role
};
std::string_view RoleReasonName(RoleReason reason);  // "prompts", "places", "nobody"

// Decides in which role one worker takes new requests. It looks now and then at what routers see of
// all workers: while prompts wait too long and the other decode workers can hold what there is, it
// begins to prefill; while decode workers are too full and the other prefill workers can compute
// what comes, it begins to decode.
//
// Workers decide without asking each other. They stand in a row by their numbers: those that decode
// first, those that prefill last. Only the last that decodes may begin to prefill, and only the
// first that prefills may begin to decode, so that of those who look at the same moment one moves,
// also where what they see is old. For the same reason some worker always remains in each role:
// whoever leaves one has seen another that stays before it. Only a death can leave a role without
// anybody, and then the next in the row takes it.
//
// It has no threads and no clock, and is simulated as it is served. Not thread-safe.
class RoleRule final {
 public:
  // `number` is the worker's own in RoleView::lowest and highest.
  RoleRule(const RoleRuleOptions& options, uint64_t number, WorkerRole begin, base::Instant now)
      : options_(options), number_(number), role_(begin), since_(now), moved_(now) {}

  WorkerRole role() const { return role_; }
  // Looks at what each router that watches the worker told last, and changes the role if it says
  // so. Routers that told nothing are not among `views`; without any it stays as it is.
  std::optional<RoleReason> Look(std::span<const ClusterView> views, base::Instant now);

 private:
  // Whether it is this worker's turn to leave its role, and somebody else stays.
  bool MayLeave(const ClusterView& view) const;
  std::optional<RoleReason> Reason(std::span<const ClusterView> views, base::Instant now);

  RoleRuleOptions options_;
  uint64_t number_;
  WorkerRole role_;
  base::Instant since_;  // of this role
  base::Instant moved_;  // the number of workers of a role was another one
  int32_t prefills_ = 0, decodes_ = 0;
};

}  // namespace baton
