#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "common/base/ids.h"

namespace baton {

class BlockPool;

// One counted reference to a block, which is given back when it is destroyed. It can be moved but
// not copied, belongs to the engine's thread, and must not outlive its pool.
class BlockRef {
 public:
  BlockRef() = default;
  BlockRef(BlockRef&& other) noexcept;
  BlockRef& operator=(BlockRef&& other) noexcept;
  BlockRef(const BlockRef&) = delete;
  BlockRef& operator=(const BlockRef&) = delete;
  ~BlockRef() { Reset(); }

  BlockId id() const { return id_; }
  explicit operator bool() const { return pool_ != nullptr; }
  // False once it was given back or became a hold.
  bool owns() const { return pool_ != nullptr && !held_; }

  // Gives the reference back.
  void Reset();
  // Turns the reference into a hold: nothing of ours uses the block any more, but somebody may
  // still touch its bytes, so it must not be handed out until this ref is gone.
  void Quarantine();

 private:
  friend class BlockPool;
  BlockRef(BlockPool* pool, BlockId id) : pool_(pool), id_(id) {}

  BlockPool* pool_ = nullptr;
  BlockId id_;
  bool held_ = false;
};

// Knows which block of the arena has which owners. It deals in ids only and never touches memory:
//
//   BlockPool pool(/*num_blocks=*/1024);
//   BlockTable table;
//   if (BlockRef block = pool.Allocate()) table.Append(std::move(block));
//   pool.SetCached(table[0], true);  // its content is worth keeping
//   table.Clear();                   // now it is evictable, and still there for Reference
//
// At every moment a block is one of
//   used         referenced by a sequence,
//   quarantined  not referenced, but held until a transfer confirms that it is done,
//   cached       neither, but its content is in the prefix cache: evictable, least recent first,
//   free         none of these;
// so free + cached + quarantined + used = total. Only the engine's thread may call it.
class BlockPool {
 public:
  explicit BlockPool(int32_t num_blocks);
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // Hands out a free block, or else the least recently used cached one, which is evicted. The
  // result is empty when there is neither.
  BlockRef Allocate();
  // Makes another reference to a block that is used or cached.
  BlockRef Reference(BlockId id);

  // Says whether the content is worth keeping when nobody refers to the block any more.
  void SetCached(BlockId id, bool cached);
  bool is_cached(BlockId id) const { return blocks_[Index(id)].cached; }
  // Called with each block that Allocate evicts, before it is handed out.
  void set_evicted_callback(std::function<void(BlockId)> callback) {
    evicted_ = std::move(callback);
  }

  int32_t total() const { return static_cast<int32_t>(blocks_.size()); }
  int32_t num_free() const { return static_cast<int32_t>(free_.size()); }
  int32_t num_cached() const { return num_cached_; }
  int32_t num_quarantined() const { return num_quarantined_; }
  int32_t num_used() const { return num_used_; }
  // How many blocks Allocate could hand out.
  int32_t available() const { return num_free() + num_cached_; }
  uint64_t evictions() const { return evictions_; }
  int32_t references(BlockId id) const { return blocks_[Index(id)].references; }
  // Whether the block is used or quarantined.
  bool in_use(BlockId id) const {
    return blocks_[Index(id)].references > 0 || blocks_[Index(id)].holds > 0;
  }

  // Recounts everything and compares it with the counters; for tests.
  bool IsConsistent() const;

 private:
  friend class BlockRef;
  static constexpr int32_t kNil = -1;

  struct Block {
    int32_t references = 0;
    int32_t holds = 0;
    bool cached = false;
    bool in_lru = false;
    int32_t previous = kNil, next = kNil;  // in the list of evictable blocks
  };

  static size_t Index(BlockId id) { return static_cast<size_t>(id.value()); }
  void Release(BlockId id, bool held);
  void Hold(BlockId id);
  // Files a block without references or holds under cached or free.
  void Park(int32_t index);
  void LruPush(int32_t index);
  void LruRemove(int32_t index);

  std::vector<Block> blocks_;
  std::vector<int32_t> free_;  // a stack: the warmest block first
  int32_t lru_oldest_ = kNil, lru_newest_ = kNil;
  int32_t num_cached_ = 0, num_quarantined_ = 0, num_used_ = 0;
  uint64_t evictions_ = 0;
  std::function<void(BlockId)> evicted_;
};

}  // namespace baton
