#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "router/workers/worker_view.h"

namespace baton {

// Which prefill workers have a warm pair with a decode worker, as they said last: their lists of
// decode workers, turned round. A change costs what the lists are long, which the workers bound.
// Not thread-safe.
class WarmPairs final {
 public:
  // `prefill` said `decodes`, incarnations of decode workers, in place of what it had said.
  void Set(WorkerView* prefill, std::vector<uint64_t> decodes) {
    if (prefill->warm_pairs == decodes) return;
    for (const uint64_t decode : prefill->warm_pairs) {
      const auto found = prefills_of_.find(decode);
      if (found == prefills_of_.end()) continue;
      std::erase(found->second, prefill);
      if (found->second.empty()) prefills_of_.erase(found);
    }
    prefill->warm_pairs = std::move(decodes);
    for (const uint64_t decode : prefill->warm_pairs) {
      std::vector<const WorkerView*>& prefills = prefills_of_[decode];
      if (std::ranges::find(prefills, prefill) == prefills.end()) prefills.push_back(prefill);
    }
  }

  // Until the next change. Some of them may get no requests now.
  std::span<const WorkerView* const> With(const WorkerView& decode) const {
    const auto found = prefills_of_.find(decode.facts.incarnation);
    if (found == prefills_of_.end()) return {};
    return found->second;
  }

 private:
  std::unordered_map<uint64_t, std::vector<const WorkerView*>> prefills_of_;
};

}  // namespace baton
