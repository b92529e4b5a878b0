// The questions that placement asks a WorkerDirectory, and what it remembers of the answers.
#include <algorithm>
#include <set>

#include "router/workers/worker_directory.h"

namespace baton {

bool WorkerDirectory::IsHealthy(const Entry& entry) const {
  const bool fresh = clock_->Now() - entry.status_at <= options_.deadlines.status_fresh;
  return entry.facts && entry.accepted && entry.listed && fresh && entry.load.ready() &&
         !entry.load.draining();
}

std::vector<const WorkerDirectory::Entry*> WorkerDirectory::HealthyLocked(WorkerKind kind) const {
  std::vector<const Entry*> healthy;
  std::set<uint64_t> seen;  // one process may be reached at two addresses
  for (const auto& [key, entry] : entries_) {
    if (key.first != kind || !IsHealthy(entry)) continue;
    if (seen.insert(entry.facts->incarnation).second) healthy.push_back(&entry);
  }
  return healthy;
}

WorkerView WorkerDirectory::ViewOf(const Entry& entry) const {
  const int64_t block = std::max(1, entry.facts->layout.block_size);
  // A running request is taken to be half-way through what it may still generate.
  const int64_t growth = std::max<int64_t>(0, entry.growth_tokens / 2) + entry.tokens_placed;
  return {.link = entry.link,
          .facts = *entry.facts,
          .places_free = entry.load.prefill_places_free() - entry.places_taken,
          .queued_tokens = entry.load.queued_prompt_tokens() + entry.tokens_added,
          .blocks_total = entry.load.blocks_total(),
          .blocks_expected = entry.load.blocks_used() + entry.load.blocks_quarantined() +
                             (growth + block - 1) / block,
          .full_until = entry.full_until,
          .warm_pairs = {entry.load.warm_pairs().begin(), entry.load.warm_pairs().end()}};
}

std::vector<WorkerView> WorkerDirectory::Healthy(WorkerKind kind) const {
  base::MutexLock lock(&mutex_);
  std::vector<WorkerView> views;
  for (const Entry* entry : HealthyLocked(kind)) {
    if (!entry->suspect) views.push_back(ViewOf(*entry));
  }
  return views;
}

std::string WorkerDirectory::ServingFingerprint() {
  base::MutexLock lock(&mutex_);
  const auto healthy = HealthyLocked(WorkerKind::kDecode);
  const bool kept = std::any_of(healthy.begin(), healthy.end(), [&](const Entry* entry) {
    return entry->facts->fingerprint == serving_fingerprint_;
  });
  if (!kept && !healthy.empty()) serving_fingerprint_ = healthy.front()->facts->fingerprint;
  return healthy.empty() ? "" : serving_fingerprint_;
}

PairSet WorkerDirectory::FailedPairs() const {
  base::MutexLock lock(&mutex_);
  PairSet pairs;
  for (const auto& [pair, until] : failed_pairs_) {
    if (clock_->Now() < until) pairs.insert(pair);
  }
  return pairs;
}

std::optional<base::Instant> WorkerDirectory::NoDecodeSince() {
  base::MutexLock lock(&mutex_);
  if (!HealthyLocked(WorkerKind::kDecode).empty()) {
    no_decode_since_.reset();
  } else if (!no_decode_since_) {
    no_decode_since_ = clock_->Now();
  }
  return no_decode_since_;
}

bool WorkerDirectory::IsAlive(const WorkerKey& key) const {
  base::MutexLock lock(&mutex_);
  return std::any_of(entries_.begin(), entries_.end(), [&](const auto& item) {
    const Entry& entry = item.second;
    return entry.facts && entry.link->address == key.address &&
           entry.facts->incarnation == key.incarnation;
  });
}

std::vector<WorkerReport> WorkerDirectory::Report() const {
  base::MutexLock lock(&mutex_);
  std::vector<WorkerReport> report;
  for (const auto& [key, entry] : entries_) {
    report.push_back({.address = key.second, .kind = key.first, .healthy = IsHealthy(entry)});
  }
  return report;
}

int32_t WorkerDirectory::ContextLimit() const {
  base::MutexLock lock(&mutex_);
  int64_t limit = 0;
  for (const Entry* entry : HealthyLocked(WorkerKind::kDecode)) {
    const int64_t pool =
        int64_t{entry->load.blocks_total()} * std::max(1, entry->facts->layout.block_size);
    limit = std::max(limit, std::min<int64_t>(entry->facts->max_model_len, pool));
  }
  return static_cast<int32_t>(limit);
}

int64_t WorkerDirectory::TotalBlocks() const {
  base::MutexLock lock(&mutex_);
  int64_t blocks = 0;
  for (const Entry* entry : HealthyLocked(WorkerKind::kDecode)) {
    blocks += entry->load.blocks_total();
  }
  return blocks;
}

int32_t WorkerDirectory::BlockTokens() const {
  base::MutexLock lock(&mutex_);
  const auto healthy = HealthyLocked(WorkerKind::kDecode);
  return healthy.empty() ? PrefixChain{}.block_tokens
                         : std::max(1, healthy.front()->facts->layout.block_size);
}

std::unique_ptr<WorkerHold> WorkerDirectory::Hold(const WorkerView& view, int64_t tokens,
                                                  int64_t peak_tokens, bool computes) {
  base::MutexLock lock(&mutex_);
  if (Entry* entry = FindLocked(view.key())) {
    if (computes) {
      ++entry->places_taken;
      entry->tokens_added += tokens;
    }
    entry->tokens_placed += tokens;
    entry->growth_tokens += peak_tokens - tokens;
  }
  return std::make_unique<WorkerHold>(weak_from_this(), view.key(), peak_tokens - tokens, computes);
}

WorkerDirectory::Entry* WorkerDirectory::FindLocked(const WorkerKey& key) {
  for (auto& [entry_key, entry] : entries_) {
    if (entry_key.second == key.address && entry.facts &&
        entry.facts->incarnation == key.incarnation) {
      return &entry;
    }
  }
  return nullptr;
}

void WorkerDirectory::PlaceReturned(const WorkerKey& key) {
  {
    base::MutexLock lock(&mutex_);
    Entry* entry = FindLocked(key);
    if (entry == nullptr) return;
    // The count may go below zero, because the worker's figure still counts a prompt that is over.
    --entry->places_taken;
  }
  Changed();
}

void WorkerDirectory::HoldEnded(const WorkerKey& key, int64_t growth_tokens) {
  base::MutexLock lock(&mutex_);
  if (Entry* entry = FindLocked(key)) entry->growth_tokens -= growth_tokens;
}

void WorkerDirectory::MarkFull(const WorkerKey& key) {
  base::Instant until = clock_->Now() + options_.deadlines.full_backoff;
  {
    base::MutexLock lock(&mutex_);
    Entry* entry = FindLocked(key);
    if (entry == nullptr) return;
    entry->full_until = until;
  }
  timers_->At(until, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Changed();
  });
}

void WorkerDirectory::MarkSuspect(const WorkerKey& key) {
  base::MutexLock lock(&mutex_);
  if (Entry* entry = FindLocked(key)) entry->suspect = true;
}

void WorkerDirectory::MarkHeld(const WorkerKey& key, const PrefixChain& prefix) {
  base::MutexLock lock(&mutex_);
  const Entry* entry = FindLocked(key);
  if (entry == nullptr) return;
  prefix_hints_.Note(key, prefix, entry->load.blocks_total(), clock_->Now());
}

void WorkerDirectory::MarkNotHeld(const WorkerKey& key) {
  base::MutexLock lock(&mutex_);
  if (FindLocked(key) == nullptr) return;
  prefix_hints_.Distrust(key, clock_->Now() + options_.deadlines.avoid);
}

void WorkerDirectory::MarkFailedPair(const std::string& prefill, const std::string& decode) {
  base::MutexLock lock(&mutex_);
  std::erase_if(failed_pairs_, [&](const auto& item) { return item.second <= clock_->Now(); });
  failed_pairs_[{prefill, decode}] = clock_->Now() + options_.deadlines.avoid;
}

}  // namespace baton
