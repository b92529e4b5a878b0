#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/dtype.h"

namespace baton::kernels {

// Shape of one KV block. Block-major: a block holds all layers, contiguous, as
// [layer][k|v][kv_head][token][head_dim], so that it is allocated, hashed and moved with one copy.
struct KvLayout {
  DType dtype = DType::kF32;
  int block_size = 16;  // tokens
  int layers = 0;
  int kv_heads = 0;
  int head_dim = 0;

  friend bool operator==(const KvLayout&, const KvLayout&) = default;

  size_t head_elements() const { return static_cast<size_t>(block_size) * head_dim; }
  size_t plane_elements() const { return kv_heads * head_elements(); }  // K or V of one layer
  size_t block_elements() const { return 2 * layers * plane_elements(); }
  size_t block_bytes() const { return block_elements() * SizeOf(dtype); }
  size_t bytes_per_token() const { return block_bytes() / block_size; }
};

// The arena of one worker: `num_blocks` blocks of `layout`, addressed by block id.
struct PagedKv {
  std::byte* arena = nullptr;
  KvLayout layout;
  int32_t num_blocks = 0;

  std::byte* block(int32_t id) const { return arena + layout.block_bytes() * id; }
  std::span<std::byte> block_span(int32_t id) const { return {block(id), layout.block_bytes()}; }

  // Element offset inside a block of [layer][plane][kv_head][token][0]; plane 0 is K, 1 is V.
  size_t offset(int layer, int plane, int kv_head, int token) const {
    return (2 * static_cast<size_t>(layer) + plane) * layout.plane_elements() +
           kv_head * layout.head_elements() + static_cast<size_t>(token) * layout.head_dim;
  }
};

}  // namespace baton::kernels
