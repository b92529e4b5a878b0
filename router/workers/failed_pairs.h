#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>

#include "common/base/clock.h"
#include "router/workers/routing_policy.h"

namespace baton {

// The prefill and decode workers between which a push failed lately. Not thread-safe.
class FailedPairs final {
 public:
  void Mark(const std::string& prefill, const std::string& decode, base::Instant until) {
    const auto [pair, first] = until_.try_emplace({prefill, decode}, until);
    if (!first) by_until_.erase({std::exchange(pair->second, until), &pair->first});
    by_until_.emplace(until, &pair->first);
    pairs_.emplace(prefill, decode);
  }

  // Those that are not forgiven at `now`. Valid until the next call.
  const PairSet& At(base::Instant now) {
    while (!by_until_.empty() && by_until_.begin()->first <= now) {
      const Pair forgiven = *by_until_.begin()->second;
      by_until_.erase(by_until_.begin());
      pairs_.erase(forgiven);
      until_.erase(forgiven);
    }
    return pairs_;
  }

 private:
  using Pair = std::pair<std::string, std::string>;
  std::map<Pair, base::Instant> until_;
  std::set<std::pair<base::Instant, const Pair*>> by_until_;  // who is forgiven next
  PairSet pairs_;
};

}  // namespace baton
