#include "common/kv/prefix_cache.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace baton {
namespace {

// The finaliser of splitmix64.
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

}  // namespace

uint64_t DefaultBlockHash(uint64_t parent, std::span<const TokenId> tokens) {
  uint64_t hash = parent + 0x9E3779B97F4A7C15u;
  for (const TokenId token : tokens) hash = Mix(hash ^ static_cast<uint32_t>(token));
  return hash;
}

PrefixCache::PrefixCache(BlockPool* pool, int32_t block_size, BlockHash hash)
    : pool_(pool),
      block_size_(block_size),
      hash_(hash),
      entries_(static_cast<size_t>(pool->total())) {
  pool_->set_evicted_callback([this](BlockId id) { Erase(id); });
}

PrefixCache::Chain PrefixCache::Begin(std::string_view salt) const {
  Chain chain{.salt = std::string(salt)};
  for (const char c : salt) chain.hash = Mix(chain.hash ^ static_cast<unsigned char>(c));
  return chain;
}

PrefixCache::Found PrefixCache::Match(std::string_view salt, std::span<const TokenId> tokens,
                                      int32_t max_blocks) {
  Found found{.table = {}, .chain = Begin(salt)};
  const auto full = static_cast<int32_t>(tokens.size()) / block_size_;
  for (int32_t i = 0; i < std::min(full, max_blocks); ++i) {
    const auto block_tokens =
        tokens.subspan(static_cast<size_t>(i) * block_size_, static_cast<size_t>(block_size_));
    const uint64_t hash = hash_(found.chain.hash, block_tokens);
    const auto hit = by_hash_.find(hash);
    if (hit == by_hash_.end() || !Equal(entry(hit->second), found.chain, block_tokens)) break;
    found.table.Append(pool_->Reference(hit->second));
    Advance(&found.chain, hash, entry(hit->second), hit->second);
  }
  return found;
}

void PrefixCache::Insert(Chain* chain, std::span<const TokenId> tokens, BlockId block) {
  BATON_CHECK(static_cast<int32_t>(tokens.size()) == block_size_)
      << tokens.size() << " tokens for a block of " << block_size_;
  if (chain->parent != 0 && entry(chain->parent_block).serial != chain->parent) {
    chain->broken = true;
  }
  if (chain->broken) return;
  const uint64_t hash = hash_(chain->hash, tokens);
  const auto present = by_hash_.find(hash);
  if (present != by_hash_.end()) {
    const BlockId other = present->second;
    if (Equal(entry(other), *chain, tokens)) {
      Advance(chain, hash, entry(other), other);
      return;
    }
    // An orphan of an evicted prefix, or another prefix with the same hash: the newer one wins.
    Erase(other);
    pool_->SetCached(other, false);
  }
  Entry& mine = entry(block);
  BATON_CHECK(mine.serial == 0) << "block " << block.value() << " is in the cache already";
  mine = {.hash = hash,
          .serial = ++last_serial_,
          .parent = chain->parent,
          .salt = chain->parent == 0 ? chain->salt : std::string(),
          .tokens = {tokens.begin(), tokens.end()}};
  by_hash_[hash] = block;
  pool_->SetCached(block, true);
  Advance(chain, hash, mine, block);
}

bool PrefixCache::Equal(const Entry& found, const Chain& chain,
                        std::span<const TokenId> tokens) const {
  return found.parent == chain.parent && (chain.parent != 0 || found.salt == chain.salt) &&
         std::ranges::equal(found.tokens, tokens);
}

void PrefixCache::Erase(BlockId id) {
  Entry& gone = entry(id);
  by_hash_.erase(gone.hash);
  gone = Entry();
}

void PrefixCache::Advance(Chain* chain, uint64_t hash, const Entry& to, BlockId block) {
  chain->hash = hash;
  chain->parent = to.serial;
  chain->parent_block = block;
  ++chain->blocks;
}

}  // namespace baton
