#pragma once

#include <string>

#include "common/base/kv_shape.h"
#include "kernels/paged_kv.h"

namespace baton {

// A worker's KV layout as peers are told about it, from that of one of its ranks.
inline KvShape KvShapeOf(const kernels::KvLayout& layout, int32_t layout_version, int32_t kv_heads,
                         int32_t ranks) {
  return {.dtype = std::string(kernels::Name(layout.dtype)),
          .block_size = layout.block_size,
          .layers = layout.layers,
          .kv_heads = kv_heads,
          .head_dim = layout.head_dim,
          .tensor_parallel = ranks,
          .layout_version = layout_version};
}

}  // namespace baton
