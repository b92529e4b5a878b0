#include "router/workers/prefix_hints.h"

#include <algorithm>

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

void PrefixHints::Blocks::Touch(uint64_t block) {
  if (const auto it = at.find(block); it != at.end()) {
    recent.splice(recent.begin(), recent, it->second);
    return;
  }
  recent.push_front(block);
  at[block] = recent.begin();
}

void PrefixHints::Blocks::ShrinkTo(size_t count) {
  while (recent.size() > count) {
    at.erase(recent.back());
    recent.pop_back();
  }
}

void PrefixHints::Note(const WorkerKey& worker, const PrefixChain& chain, int64_t pool_blocks,
                       base::Instant now) {
  const auto limit = static_cast<size_t>(std::clamp<int64_t>(pool_blocks, 0, kMaxBlocks));
  base::MutexLock lock(&mutex_);
  Blocks& known = workers_[worker];
  if (now < known.distrusted_until) return;
  // The last block is noted first, so that a chain loses its end before its beginning, without
  // which the rest is of no use.
  const size_t count = std::min(chain.blocks.size(), limit);
  for (size_t i = count; i > 0; --i) known.Touch(chain.blocks[i - 1]);
  known.ShrinkTo(limit);
}

int64_t PrefixHints::HeldTokens(const WorkerKey& worker, const PrefixChain& chain) const {
  base::MutexLock lock(&mutex_);
  const auto known = workers_.find(worker);
  if (known == workers_.end()) return 0;
  const auto& at = known->second.at;
  const auto first_unknown =
      std::find_if(chain.blocks.begin(), chain.blocks.end(),
                   [&](uint64_t block) { return at.find(block) == at.end(); });
  const int64_t most = std::max<int64_t>(0, chain.tokens - 1) / chain.block_tokens;
  return std::min<int64_t>(first_unknown - chain.blocks.begin(), most) * chain.block_tokens;
}

void PrefixHints::Distrust(const WorkerKey& worker, base::Instant until) {
  base::MutexLock lock(&mutex_);
  workers_[worker] = Blocks{.recent = {}, .at = {}, .distrusted_until = until};
}

void PrefixHints::Drop(const WorkerKey& worker) {
  base::MutexLock lock(&mutex_);
  workers_.erase(worker);
}

size_t PrefixHints::workers() const {
  base::MutexLock lock(&mutex_);
  return workers_.size();
}

}  // namespace baton
