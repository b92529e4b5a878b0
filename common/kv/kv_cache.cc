#include "common/kv/kv_cache.h"

namespace baton {

ByteParts KvCache::peer_bytes(BlockId id) const {
  ByteParts parts;
  for (size_t rank = 1; rank < ranks_.size(); ++rank) {
    parts.push_back(ranks_[rank].block_span(id.value()));
  }
  return parts;
}

}  // namespace baton
