#include "router/workers/prefix_hints.h"

#include <algorithm>
#include <utility>

#include "common/base/block_hash.h"

namespace baton {
PrefixChain ChainOf(std::string_view salt, std::span<const TokenId> prompt,
                    std::span<const TokenId> generated, int32_t block_tokens) {
  const auto tokens = static_cast<int64_t>(prompt.size() + generated.size());
  PrefixChain chain{.block_tokens = block_tokens, .tokens = tokens, .blocks = {}};
  chain.blocks.reserve(static_cast<size_t>(tokens / block_tokens));
  const auto block_size = static_cast<size_t>(block_tokens);
  uint64_t hash = HashSalt(salt);
  std::vector<TokenId> open;  // the block that the prompt leaves to what was generated
  for (auto part : {prompt, generated}) {
    while (open.size() + part.size() >= block_size) {
      const size_t taken = block_size - open.size();
      open.insert(open.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(taken));
      part = part.subspan(taken);
      hash = HashBlock(hash, open);
      chain.blocks.push_back(hash);
      open.clear();
    }
    open.insert(open.end(), part.begin(), part.end());
  }
  return chain;
}

bool PrefixHints::Worker::Holds(uint64_t block, Belief belief) const {
  if (told.contains(block)) return true;
  const auto sent_to_it = sent_at.find(block);
  return sent_to_it != sent_at.end() && sent_to_it->second->belief >= belief;
}

size_t PrefixHints::Worker::Held(const PrefixChain& chain, Belief belief) const {
  // Chains lose their ends first, so that who holds a block holds those before it.
  const auto step = static_cast<size_t>(stride);
  size_t held = 0, beyond = chain.blocks.size() / step + 1;
  while (beyond - held > 1) {
    // What nobody sent is seen at the first block.
    const size_t middle = held == 0 ? 1 : (held + beyond) / 2;
    (Holds(chain.blocks[middle * step - 1], belief) ? held : beyond) = middle;
    if (held == 0) return 0;
  }
  return held * step;
}

PrefixHints::Worker& PrefixHints::Of(const WorkerKey& key) {
  const auto [found, is_new] = workers_.try_emplace(key);
  if (is_new) {
    found->second.key = key;
    ++strides_[1];
  }
  return found->second;
}

void PrefixHints::Enter(const Worker& worker, uint64_t block) {
  if (worker.Holds(block)) return;
  holders_[block].push_back(&worker);
  ++known_;
}

void PrefixHints::Leave(const Worker& worker, uint64_t block) {
  if (worker.Holds(block)) return;
  const auto found = holders_.find(block);
  HoldersOfBlock& holders = found->second;
  *std::ranges::find(holders, &worker) = holders.back();
  holders.pop_back();
  if (holders.empty()) holders_.erase(found);
  --known_;
}

void PrefixHints::Touch(Worker* worker, uint64_t block, Belief belief, base::Instant now) {
  if (const auto it = worker->sent_at.find(block); it != worker->sent_at.end()) {
    // That more is sent there does not prove anew what was held.
    if (belief < it->second->belief) return;
    it->second->at = now;
    it->second->belief = belief;
    worker->sent.splice(worker->sent.begin(), worker->sent, it->second);
    return;
  }
  if (known_ >= most_known_) return;
  Enter(*worker, block);
  worker->sent.push_front({block, now, belief});
  worker->sent_at[block] = worker->sent.begin();
}

void PrefixHints::ShrinkTo(Worker* worker, size_t count, base::Instant since) {
  while (!worker->sent.empty() && (worker->sent.size() > count || worker->sent.back().at < since)) {
    const uint64_t block = worker->sent.back().block;
    worker->sent_at.erase(block);
    worker->sent.pop_back();
    Leave(*worker, block);
  }
}

void PrefixHints::ForgetTold(Worker* worker) {
  const auto told = std::exchange(worker->told, {});
  for (const uint64_t block : told) Leave(*worker, block);
}

void PrefixHints::Sends(Worker* worker, const PrefixChain& chain, Belief belief, size_t limit,
                        base::Instant now) {
  // The last block is noted first, so that a chain loses its end before its beginning, without
  // which the rest is of no use.
  const size_t count = std::min(chain.blocks.size(), limit);
  for (size_t i = count; i > 0; --i) {
    if (i % static_cast<size_t>(worker->stride) != 0) continue;
    Touch(worker, chain.blocks[i - 1], belief, now);
  }
  ShrinkTo(worker, limit, worker->version > 0 ? now - kUntilReported : base::Instant::min());
}

void PrefixHints::Note(const WorkerKey& worker, const PrefixChain& chain, int64_t pool_blocks,
                       base::Instant now) {
  const auto limit = static_cast<size_t>(std::clamp<int64_t>(pool_blocks, 0, kMaxBlocks));
  base::MutexLock lock(&mutex_);
  Worker& known = Of(worker);
  if (now < known.distrusted_until) return;
  Sends(&known, chain, Belief::kHeld, limit, now);
}

void PrefixHints::Expect(const WorkerKey& worker, const PrefixChain& chain, base::Instant now) {
  base::MutexLock lock(&mutex_);
  const auto found = workers_.find(worker);
  if (found == workers_.end() || found->second.version == 0) return;
  // Before: what lapsed must not keep what is new from being noted.
  ShrinkTo(&found->second, kMaxBlocks, now - kUntilReported);
  Sends(&found->second, chain, Belief::kExpected, kMaxBlocks, now);
}

bool PrefixHints::Report(const WorkerKey& worker, const PrefixReport& report, base::Instant now) {
  if (report.version == 0) return true;
  base::MutexLock lock(&mutex_);
  Worker& known = Of(worker);
  ShrinkTo(&known, kMaxBlocks, now - kUntilReported);
  const int32_t stride = std::max(1, report.stride);
  if (report.whole || report.since != known.version || stride != known.stride) ForgetTold(&known);
  if (!report.whole && (report.since != known.version || stride != known.stride)) {
    known.version = 0;
    return false;
  }
  if (stride != known.stride) {
    ShrinkTo(&known, 0, {});
    if (--strides_[known.stride] == 0) strides_.erase(known.stride);
    ++strides_[stride];
    known.stride = stride;
  }
  known.version = report.version;
  for (const uint64_t block : report.removed) {
    if (known.told.erase(block) > 0) Leave(known, block);
  }
  for (const uint64_t block : report.added) {
    if (known_ >= most_known_ || known.told.size() >= kMostReportedBlocks) break;
    Enter(known, block);
    known.told.insert(block);
  }
  return true;
}

int64_t PrefixHints::HeldTokens(const WorkerKey& worker, const PrefixChain& chain) const {
  return TokensOf(worker, chain, Belief::kHeld);
}

int64_t PrefixHints::ExpectedTokens(const WorkerKey& worker, const PrefixChain& chain) const {
  return TokensOf(worker, chain, Belief::kExpected);
}

int64_t PrefixHints::TokensOf(const WorkerKey& worker, const PrefixChain& chain,
                              Belief belief) const {
  base::MutexLock lock(&mutex_);
  const auto known = workers_.find(worker);
  if (known == workers_.end()) return 0;
  const int64_t most = std::max<int64_t>(0, chain.tokens - 1) / chain.block_tokens;
  return std::min<int64_t>(static_cast<int64_t>(known->second.Held(chain, belief)), most) *
         chain.block_tokens;
}

bool PrefixHints::AnyHolds(const PrefixChain& chain, int64_t tokens) const {
  const int64_t blocks =
      (std::max<int64_t>(1, tokens) + chain.block_tokens - 1) / chain.block_tokens;
  if (blocks > (chain.tokens - 1) / chain.block_tokens) return false;
  base::MutexLock lock(&mutex_);
  // Of every so many blocks that a worker tells of, the next one behind these.
  return std::ranges::any_of(strides_, [&](const auto& of_workers) {
    const auto step = static_cast<size_t>(of_workers.first);
    const size_t last = (static_cast<size_t>(blocks) + step - 1) / step * step;
    return last <= chain.blocks.size() && holders_.contains(chain.blocks[last - 1]);
  });
}

std::vector<WorkerKey> PrefixHints::Holders(
    const PrefixChain& chain, size_t most, std::mt19937_64* random,
    const std::function<bool(const WorkerKey&)>& may) const {
  base::MutexLock lock(&mutex_);
  std::vector<WorkerKey> found;
  std::vector<const Worker*> seen;
  const auto holders_at = [&](size_t blocks) {
    const auto at = holders_.find(chain.blocks[blocks - 1]);
    return at == holders_.end() ? nullptr : &at->second;
  };
  for (const auto& [stride, workers] : strides_) {
    const auto step = static_cast<size_t>(stride);
    size_t held = 0, beyond = chain.blocks.size() / step + 1;
    while (beyond - held > 1) {
      const size_t middle = (held + beyond) / 2;
      (holders_at(middle * step) != nullptr ? held : beyond) = middle;
    }
    for (; held > 0 && found.size() < most; held /= 2) {
      const HoldersOfBlock* const holders = holders_at(held * step);
      if (holders == nullptr) continue;
      const size_t first = (*random)() % holders->size();
      for (size_t i = 0; i < std::min(holders->size(), 2 * most) && found.size() < most; ++i) {
        const Worker* const worker = (*holders)[(first + i) % holders->size()];
        if (std::ranges::find(seen, worker) != seen.end()) continue;
        seen.push_back(worker);
        if (may == nullptr || may(worker->key)) found.push_back(worker->key);
      }
    }
  }
  return found;
}

void PrefixHints::Distrust(const WorkerKey& worker, base::Instant until) {
  base::MutexLock lock(&mutex_);
  Worker& known = Of(worker);
  ShrinkTo(&known, 0, {});
  known.distrusted_until = until;
}

void PrefixHints::Drop(const WorkerKey& worker) {
  base::MutexLock lock(&mutex_);
  const auto found = workers_.find(worker);
  if (found == workers_.end()) return;
  ForgetTold(&found->second);
  ShrinkTo(&found->second, 0, {});
  if (--strides_[found->second.stride] == 0) strides_.erase(found->second.stride);
  workers_.erase(found);
}

size_t PrefixHints::known() const {
  base::MutexLock lock(&mutex_);
  return known_;
}

size_t PrefixHints::workers() const {
  base::MutexLock lock(&mutex_);
  return workers_.size();
}

}  // namespace baton
