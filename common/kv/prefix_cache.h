#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/base/block_hash.h"
#include "common/base/ids.h"
#include "common/kv/block_pool.h"
#include "common/kv/block_table.h"
#include "common/kv/prefix_journal.h"

namespace baton {

// As HashBlock, or a worse one in tests.
using BlockHash = uint64_t (*)(uint64_t parent, std::span<const TokenId> tokens);

// Finds full blocks whose KV is already in the pool. Each entry is one block and names the entry
// before it, so an entry stands for a whole prefix. A hit compares token ids and the chain, never
// only hashes. Entries of different salts never meet. The pool decides about eviction, least
// recently used first. Only the engine's thread may call it.
class PrefixCache {
 public:
  // How far a sequence's own prefix has been entered.
  struct Chain {
    std::string salt;
    uint64_t hash = 0;
    uint64_t parent = 0;  // serial of the last entry; 0 at the start
    BlockId parent_block;
    int32_t blocks = 0;
    bool broken = false;  // the last entry was evicted: nothing can be entered behind it
  };
  struct Found {
    BlockTable table;
    Chain chain;  // to go on entering behind them
  };

  // What is entered and evicted is noted in `journal`, if there is one, which outlives the cache.
  PrefixCache(BlockPool* pool, int32_t block_size, BlockHash hash = &HashBlock,
              PrefixJournal* journal = nullptr);

  Chain Begin(std::string_view salt) const;
  // References the longest cached prefix of `tokens` in full blocks, at most `max_blocks`.
  Found Match(std::string_view salt, std::span<const TokenId> tokens, int32_t max_blocks);
  // Enters `block`, which holds the proven KV of `tokens` (one full block) behind `chain`, and
  // moves the chain on. An equal entry stays; `block` is then not entered.
  void Insert(Chain* chain, std::span<const TokenId> tokens, BlockId block);
  // Takes out every entry of the longest cached prefix of `tokens`, so that nobody finds it or goes
  // on behind it: its KV is not to be trusted. Who has references keeps them.
  void Forget(std::string_view salt, std::span<const TokenId> tokens);

  size_t size() const { return by_hash_.size(); }

 private:
  struct Entry {
    uint64_t hash = 0;
    uint64_t serial = 0;  // unique; 0 = no entry
    uint64_t parent = 0;
    bool told = false;  // to the journal
    std::string salt;   // of the first block of a chain
    std::vector<TokenId> tokens;
  };

  Entry& entry(BlockId id) { return entries_[static_cast<size_t>(id.value())]; }
  bool Equal(const Entry& found, const Chain& chain, std::span<const TokenId> tokens) const;
  void Erase(BlockId id);
  static void Advance(Chain* chain, uint64_t hash, const Entry& to, BlockId block);

  BlockPool* const pool_;
  const int32_t block_size_;
  const BlockHash hash_;
  PrefixJournal* const journal_;
  uint64_t last_serial_ = 0;
  std::vector<Entry> entries_;  // by block id
  absl::flat_hash_map<uint64_t, BlockId> by_hash_;
};

}  // namespace baton
