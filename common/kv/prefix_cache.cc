#include "common/kv/prefix_cache.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace baton {

PrefixCache::PrefixCache(BlockPool* pool, int32_t block_size, BlockHash hash,
                         PrefixJournal* journal)
    : pool_(pool),
      block_size_(block_size),
      hash_(hash),
      journal_(journal),
      entries_(static_cast<size_t>(pool->total())) {
  pool_->set_evicted_callback([this](BlockId id) { Erase(id); });
}

PrefixCache::Chain PrefixCache::Begin(std::string_view salt) const {
  return {.salt = std::string(salt), .hash = HashSalt(salt)};
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
          .told = journal_ != nullptr && journal_->Tells(chain->blocks + 1),
          .salt = chain->parent == 0 ? chain->salt : std::string(),
          .tokens = {tokens.begin(), tokens.end()}};
  by_hash_[hash] = block;
  if (mine.told) journal_->Added(hash);
  pool_->SetCached(block, true);
  Advance(chain, hash, mine, block);
}

void PrefixCache::Forget(std::string_view salt, std::span<const TokenId> tokens) {
  const Found found = Match(salt, tokens, static_cast<int32_t>(tokens.size()) / block_size_);
  for (const BlockId block : found.table.ids()) {
    Erase(block);
    pool_->SetCached(block, false);
  }
}

bool PrefixCache::Equal(const Entry& found, const Chain& chain,
                        std::span<const TokenId> tokens) const {
  return found.parent == chain.parent && (chain.parent != 0 || found.salt == chain.salt) &&
         std::ranges::equal(found.tokens, tokens);
}

void PrefixCache::Erase(BlockId id) {
  Entry& gone = entry(id);
  by_hash_.erase(gone.hash);
  if (gone.told) journal_->Removed(gone.hash);
  gone = Entry();
}

void PrefixCache::Advance(Chain* chain, uint64_t hash, const Entry& to, BlockId block) {
  chain->hash = hash;
  chain->parent = to.serial;
  chain->parent_block = block;
  ++chain->blocks;
}

}  // namespace baton
