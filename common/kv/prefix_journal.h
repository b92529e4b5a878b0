#pragma once

#include <cstdint>
#include <deque>

#include "absl/container/flat_hash_set.h"
#include "common/base/mutex.h"
#include "common/base/prefix_report.h"

namespace baton {

// What a prefix cache holds, as those may read it who are told of it: all of it, or what changed
// since they were told last. It holds no more than kMostReportedBlocks; of a pool that may have
// more, only every second, fourth, ... block of a chain is told of. Thread-safe.
class PrefixJournal final {
 public:
  // Of a cache of so many blocks. Where there is none, 0, the stride is longer than any chain, so
  // that those who are told expect nothing of it, whatever they send there.
  explicit PrefixJournal(int32_t pool_blocks);

  // Whether the block that stands at `depth` of its chain, counted from 1, is told of.
  bool Tells(int32_t depth) const { return depth % stride_ == 0; }
  void Added(uint64_t hash);
  // One that was added; of one that did not fit nothing was told.
  void Removed(uint64_t hash);

  // What who knows `version` is to be told. Everything, if that is 0 or too long ago.
  PrefixReport Since(uint64_t version) const;

 private:
  struct Change {
    uint64_t hash = 0;
    bool added = false;
  };
  void Note(const Change& change) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int32_t stride_;
  mutable base::Mutex mutex_;
  absl::flat_hash_set<uint64_t> held_ ABSL_GUARDED_BY(mutex_);
  // The last ones; the version counts all there were, from 1.
  std::deque<Change> changes_ ABSL_GUARDED_BY(mutex_);
  uint64_t version_ ABSL_GUARDED_BY(mutex_) = 1;
};

}  // namespace baton
