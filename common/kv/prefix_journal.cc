#include "common/kv/prefix_journal.h"

#include <limits>

namespace baton {
namespace {

constexpr size_t kMost = kMostReportedBlocks;

int32_t StrideOf(int32_t pool_blocks) {
  if (pool_blocks == 0) return std::numeric_limits<int32_t>::max();
  int32_t stride = 1;
  while (pool_blocks / stride > kMostReportedBlocks) stride *= 2;
  return stride;
}

}  // namespace

PrefixJournal::PrefixJournal(int32_t pool_blocks) : stride_(StrideOf(pool_blocks)) {}

void PrefixJournal::Added(uint64_t hash) {
  base::MutexLock lock(&mutex_);
  if (held_.size() >= kMost || !held_.insert(hash).second) return;
  Note({.hash = hash, .added = true});
}

void PrefixJournal::Removed(uint64_t hash) {
  base::MutexLock lock(&mutex_);
  if (held_.erase(hash) > 0) Note({.hash = hash, .added = false});
}

// A reader who is further behind than this is told everything, which is no longer.
void PrefixJournal::Note(const Change& change) {
  changes_.push_back(change);
  if (changes_.size() > kMost) changes_.pop_front();
  ++version_;
}

PrefixReport PrefixJournal::Since(uint64_t version) const {
  base::MutexLock lock(&mutex_);
  PrefixReport report{.since = version, .version = version_, .stride = stride_};
  const bool known = version > 0 && version <= version_ && version_ - version <= changes_.size();
  if (!known) {
    report.whole = true;
    report.since = 0;
    report.added.assign(held_.begin(), held_.end());
    return report;
  }
  // Of a block that came and went only the last word counts, which is how it is now.
  absl::flat_hash_set<uint64_t> told;
  for (size_t i = changes_.size() - (version_ - version); i < changes_.size(); ++i) {
    const uint64_t hash = changes_[i].hash;
    if (!told.insert(hash).second) continue;
    (held_.contains(hash) ? report.added : report.removed).push_back(hash);
  }
  return report;
}

}  // namespace baton
