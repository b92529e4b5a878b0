#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/kv/block_layout.h"
#include "kernels/paged_kv.h"

namespace baton {

// Finds the bytes of a block by its id. An id names a block on every rank of a tensor-parallel
// worker, each with its own heads in its own arena; layouts and numbers of blocks are equal.
// Thread-safe: it only computes addresses.
class KvCache {
 public:
  KvCache(const kernels::PagedKv& kv) : ranks_{kv} {}  // NOLINT: an arena is a cache of one rank
  // The arenas of rank 0, 1, …; there is at least one.
  explicit KvCache(std::vector<kernels::PagedKv> ranks) : ranks_(std::move(ranks)) {}

  const kernels::PagedKv& rank(size_t index) const { return ranks_[index]; }
  size_t ranks() const { return ranks_.size(); }
  const kernels::KvLayout& layout() const { return ranks_[0].layout; }  // of one rank
  int32_t num_blocks() const { return ranks_[0].num_blocks; }
  // The block's bytes on rank 0.
  std::span<std::byte> bytes(BlockId id) const { return ranks_[0].block_span(id.value()); }
  // The block's bytes on the other ranks.
  ByteParts peer_bytes(BlockId id) const;

 private:
  std::vector<kernels::PagedKv> ranks_;
};

}  // namespace baton
