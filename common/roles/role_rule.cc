#include "common/roles/role_rule.h"

#include <algorithm>
#include <utility>

namespace baton {

std::string_view RoleReasonName(RoleReason reason) {
  switch (reason) {
    case RoleReason::kPrompts:
      return "prompts";
    case RoleReason::kPlaces:
      return "places";
    case RoleReason::kNobody:
      return "nobody";
  }
  return "nobody";
}

std::optional<RoleReason> RoleRule::Look(std::span<const ClusterView> views, base::Instant now) {
  const std::optional<RoleReason> reason = Reason(views, now);
  if (!reason) return std::nullopt;
  role_ = OtherRole(role_);
  since_ = now;
  return reason;
}

bool RoleRule::MayLeave(const ClusterView& view) const {
  const RoleView& own = view.of(role_);
  if (role_ == WorkerRole::kDecode) {
    return number_ == own.highest && (own.fixed || own.lowest < number_);
  }
  // Without a prefill worker prompts are computed where they are decoded; without a decode worker
  // nothing goes on.
  return number_ == own.lowest && (own.fixed || own.highest > number_ || view.decode.workers == 0);
}

std::optional<RoleReason> RoleRule::Reason(std::span<const ClusterView> views, base::Instant now) {
  if (views.empty()) return std::nullopt;
  int32_t prefills = 0, decodes = 0;
  for (const ClusterView& view : views) {
    prefills = std::max(prefills, view.prefill.workers);
    decodes = std::max(decodes, view.decode.workers);
  }
  const bool moved = std::exchange(prefills_, prefills) != prefills;
  if ((std::exchange(decodes_, decodes) != decodes) || moved) moved_ = now;
  const bool may = std::ranges::all_of(views, [&](const auto& view) { return MayLeave(view); });
  if (!may || now - moved_ < options_.settle) return std::nullopt;
  const bool decoding = role_ == WorkerRole::kDecode;
  if ((decoding ? prefills : decodes) == 0) return RoleReason::kNobody;
  if (now - since_ < options_.cool_down) return std::nullopt;
  const RoleSignals signals = SignalsOf(views);
  const bool pressed = decoding ? signals.prompt_wait_s > options_.prompt_wait_s
                                : signals.decode_fill > options_.decode_fill;
  const double own = decoding ? signals.decode_fill : signals.prefill_load;
  const double same = decoding ? decodes : prefills;
  // The last of a role leaves it only to a role that has nobody.
  if (!pressed || same < 2 || own * same > options_.others * (same - 1)) return std::nullopt;
  return decoding ? RoleReason::kPrompts : RoleReason::kPlaces;
}

}  // namespace baton
