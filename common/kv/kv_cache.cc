#include "common/kv/kv_cache.h"

#include <cstring>

#include "common/base/check.h"

namespace baton {

void KvCache::ZeroUnusedSlots(BlockId id, int32_t used_slots) const {
  const kernels::KvLayout& layout = kv_.layout;
  BATON_CHECK(used_slots >= 0 && used_slots <= layout.block_size) << used_slots << " slots used";
  const size_t slot_bytes = static_cast<size_t>(layout.head_dim) * kernels::SizeOf(layout.dtype);
  const size_t tail_bytes = static_cast<size_t>(layout.block_size - used_slots) * slot_bytes;
  if (tail_bytes == 0) return;
  std::byte* const block = kv_.block(id.value());
  for (int layer = 0; layer < layout.layers; ++layer) {
    for (int plane = 0; plane < 2; ++plane) {
      for (int head = 0; head < layout.kv_heads; ++head) {
        const size_t offset = kv_.offset(layer, plane, head, used_slots);
        std::memset(block + offset * kernels::SizeOf(layout.dtype), 0, tail_bytes);
      }
    }
  }
}

}  // namespace baton
