#pragma once

#include <map>
#include <string>
#include <utility>

#include "common/base/clock.h"
#include "router/workers/routing_policy.h"

namespace baton {

// The prefill and decode workers between which a push failed lately. Not thread-safe.
class FailedPairs final {
 public:
  void Mark(const std::string& prefill, const std::string& decode, base::Instant until) {
    until_[{prefill, decode}] = until;
    pairs_.emplace(prefill, decode);
  }

  // Those that are not forgiven at `now`. Valid until the next call.
  const PairSet& At(base::Instant now) {
    for (auto it = until_.begin(); it != until_.end();) {
      if (it->second > now) {
        ++it;
        continue;
      }
      pairs_.erase(it->first);
      it = until_.erase(it);
    }
    return pairs_;
  }

 private:
  std::map<std::pair<std::string, std::string>, base::Instant> until_;
  PairSet pairs_;
};

}  // namespace baton
