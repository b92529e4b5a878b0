#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "common/kv/block_pool.h"

namespace baton {

// The blocks of one sequence, in order. It releases them from the last to the first, so that the
// tail of a prefix is evicted before its head.
class BlockTable {
 public:
  BlockTable() = default;
  BlockTable(BlockTable&&) = default;
  BlockTable& operator=(BlockTable&& other) noexcept {
    if (this == &other) return *this;
    Clear();
    refs_ = std::move(other.refs_);
    ids_ = std::move(other.ids_);
    return *this;
  }
  ~BlockTable() { Clear(); }

  // Makes room for `blocks` in all; until there are more, spans of ids() stay valid.
  void Reserve(int32_t blocks) {
    refs_.reserve(static_cast<size_t>(blocks));
    ids_.reserve(static_cast<size_t>(blocks));
  }
  void Append(BlockRef ref) {
    ids_.push_back(ref.id());
    refs_.push_back(std::move(ref));
  }
  void Clear() { Truncate(0); }
  // Releases all blocks but the first `blocks`.
  void Truncate(int32_t blocks) {
    while (size() > blocks) {
      refs_.pop_back();
      ids_.pop_back();
    }
  }
  // Blocks [first, end) may still be touched by a transfer; the others are released.
  void Quarantine(int32_t first, int32_t end) {
    for (size_t i = refs_.size(); i-- > 0;) {
      if (i >= static_cast<size_t>(first) && i < static_cast<size_t>(end)) {
        refs_[i].Quarantine();
      } else {
        refs_[i].Reset();
      }
    }
  }

  int32_t size() const { return static_cast<int32_t>(ids_.size()); }
  // False for a block that Quarantine released or left to a transfer.
  bool owns(int32_t ordinal) const { return refs_[static_cast<size_t>(ordinal)].owns(); }
  BlockId operator[](int32_t ordinal) const { return ids_[static_cast<size_t>(ordinal)]; }
  // The span stays valid until Clear or Truncate, or until an Append beyond what was reserved.
  std::span<const BlockId> ids() const { return ids_; }

 private:
  std::vector<BlockRef> refs_;
  std::vector<BlockId> ids_;
};

// The number of blocks that `tokens` tokens fill, the last one perhaps in part.
constexpr int32_t BlocksFor(int64_t tokens, int32_t block_size) {
  return static_cast<int32_t>((tokens + block_size - 1) / block_size);
}

}  // namespace baton
