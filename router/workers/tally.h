#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace baton {

// How many members have which value, so that the largest and the smallest are at hand. A change
// costs O(log n) of n different values, and nothing where the value stays.
class Tally final {
 public:
  // What one member counts for; empty: it is not in.
  using Counted = std::optional<int64_t>;

  // A member counts for `value` from now on. `counted` is the member's, only ever changed here.
  void Set(Counted* counted, Counted value) {
    if (*counted == value) return;
    if (*counted) {
      const auto old = counts_.find(**counted);
      if (--old->second == 0) counts_.erase(old);
    }
    if (value) ++counts_[*value];
    *counted = value;
  }

  bool empty() const { return counts_.empty(); }
  // 0 where there is none.
  int64_t largest() const { return empty() ? 0 : counts_.rbegin()->first; }
  int64_t smallest() const { return empty() ? 0 : counts_.begin()->first; }

 private:
  std::map<int64_t, int64_t> counts_;  // members by value
};

}  // namespace baton
