#pragma once

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "router/workers/routing_policy.h"
#include "router/workers/worker_table.h"

namespace baton::testing {

inline WorkerView View(const std::string& address) {
  WorkerView view;
  view.address = address;
  view.facts = {.incarnation = std::hash<std::string>()(address),
                .fingerprint = "m",
                .layout = {.dtype = "float32", .block_size = 16, .layers = 1},
                .numerics = "n",
                .protocol_major = 1,
                .max_model_len = 1000};
  view.places_free = 1;
  view.prompt_tokens_free = 1000;
  view.blocks_total = 100;
  view.fresh_until = base::kNever;
  return view;
}

// What stands before a request.
struct RequestsAhead {
  std::span<const RoutingNeed* const> needs;
  std::optional<std::string_view> prefill = std::nullopt;
};

// Two workers of each kind, among which a test picks.
class RoutingPolicyTest : public ::testing::Test {
 protected:
  std::variant<Route, Lack> Try(const RoutingNeed& need, const RequestsAhead& ahead = {}) {
    const auto decode = Pointers(decode_);
    const auto prefill = Pointers(prefill_);
    const RoutingInput input{.decode = decode,
                             .prefill = prefill,
                             .serving_prefill = prefill,
                             .failed_pairs = failed_,
                             .hints = &hints_,
                             .table = known_,
                             .warm = &warm_,
                             .local_prefill_below = local_below_,
                             .one_model = one_model_,
                             .now = now_,
                             .ahead = ahead.needs,
                             .prefill_kept_for = ahead.prefill};
    return PickRoute(need, input, &random_);
  }
  std::optional<Route> Pick(const RoutingNeed& need = {}) {
    const auto picked = Try(need);
    const Route* const route = std::get_if<Route>(&picked);
    return route == nullptr ? std::nullopt : std::optional(*route);
  }
  static std::vector<const WorkerView*> Pointers(const std::vector<WorkerView>& views) {
    std::vector<const WorkerView*> pointers;
    for (const WorkerView& view : views) pointers.push_back(&view);
    return pointers;
  }
  // How often each decode worker is picked in 200 draws.
  std::map<std::string, int> DecodeShares(const RoutingNeed& need = {}) {
    std::map<std::string, int> shares;
    for (int i = 0; i < 200; ++i) {
      if (const auto route = Pick(need)) ++shares[route->decode->address];
    }
    return shares;
  }

  std::vector<WorkerView> decode_ = {View("d1"), View("d2")};
  std::vector<WorkerView> prefill_ = {View("p1"), View("p2")};
  PairSet failed_;
  PrefixHints hints_;
  WarmPairs warm_;
  std::optional<int64_t> local_below_ = 0;
  bool one_model_ = false;
  WorkerTable table_{{}};
  const WorkerTable* known_ = &table_;
  base::Instant now_ = base::Instant(std::chrono::hours(1));
  std::mt19937_64 random_{17};
};

}  // namespace baton::testing
