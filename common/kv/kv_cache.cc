#include "common/kv/kv_cache.h"

#include <cstring>

#include "common/base/check.h"

namespace baton {

namespace {

void ZeroSlotsFrom(int32_t used_slots, const kernels::PagedKv& kv, BlockId id) {
  const kernels::KvLayout& layout = kv.layout;
  BATON_CHECK(used_slots >= 0 && used_slots <= layout.block_size) << used_slots << " slots used";
  const size_t slot_bytes = static_cast<size_t>(layout.head_dim) * kernels::SizeOf(layout.dtype);
  const size_t tail_bytes = static_cast<size_t>(layout.block_size - used_slots) * slot_bytes;
  if (tail_bytes == 0) return;
  std::byte* const block = kv.block(id.value());
  for (int layer = 0; layer < layout.layers; ++layer) {
    for (int plane = 0; plane < 2; ++plane) {
      for (int head = 0; head < layout.kv_heads; ++head) {
        const size_t offset = kv.offset(layer, plane, head, used_slots);
        std::memset(block + offset * kernels::SizeOf(layout.dtype), 0, tail_bytes);
      }
    }
  }
}

}  // namespace

ByteParts KvCache::peer_bytes(BlockId id) const {
  ByteParts parts;
  for (size_t rank = 1; rank < ranks_.size(); ++rank) {
    parts.push_back(ranks_[rank].block_span(id.value()));
  }
  return parts;
}

void KvCache::ZeroUnusedSlots(BlockId id, int32_t used_slots) const {
  for (const kernels::PagedKv& kv : ranks_) ZeroSlotsFrom(used_slots, kv, id);
}

}  // namespace baton
