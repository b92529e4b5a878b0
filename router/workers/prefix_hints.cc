#include "router/workers/prefix_hints.h"

#include <algorithm>

namespace baton {
namespace {

// Mixes as the finaliser of splitmix64 does: every bit of the state reaches every bit of the
// result.
uint64_t Mix(uint64_t state, uint64_t value) {
  uint64_t x = state ^ (value + 0x9e3779b97f4a7c15u);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

PrefixChain ChainOf(std::string_view salt, std::span<const TokenId> prompt,
                    std::span<const TokenId> generated, int32_t block_tokens) {
  const auto tokens = static_cast<int64_t>(prompt.size() + generated.size());
  PrefixChain chain{.block_tokens = block_tokens, .tokens = tokens, .blocks = {}};
  chain.blocks.reserve(static_cast<size_t>(tokens / block_tokens));
  uint64_t hash = Mix(0, static_cast<uint64_t>(block_tokens));
  for (const char c : salt) hash = Mix(hash, static_cast<unsigned char>(c));
  hash = Mix(hash, ~uint64_t{0});  // no token: where the salt ends
  int64_t count = 0;
  for (const auto part : {prompt, generated}) {
    for (const TokenId token : part) {
      hash = Mix(hash, static_cast<uint64_t>(token));
      if (++count % block_tokens == 0) chain.blocks.push_back(hash);
    }
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
