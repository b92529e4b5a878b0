#pragma once

#include <cstdint>
#include <span>

#include "common/base/ids.h"
#include "kernels/paged_kv.h"

namespace baton {

// From block ids to bytes. Thread-safe: it only computes addresses.
class KvCache {
 public:
  explicit KvCache(const kernels::PagedKv& kv) : kv_(kv) {}

  const kernels::KvLayout& layout() const { return kv_.layout; }
  int32_t num_blocks() const { return kv_.num_blocks; }
  std::span<std::byte> bytes(BlockId id) const { return kv_.block_span(id.value()); }

  // Zeroes the slots [used_slots, block_size) of every layer, plane and head, so that a block that
  // leaves this worker carries nothing of its former owners. Only for a block that nobody shares.
  void ZeroUnusedSlots(BlockId id, int32_t used_slots) const;

 private:
  const kernels::PagedKv kv_;
};

}  // namespace baton
