#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/dtype.h"

namespace baton::kernels {

// The shape of one KV block: the keys and values of `block_size` consecutive tokens of a sequence,
// for all layers. Its elements are contiguous as [layer][k|v][kv_head][token][head_dim], so that a
// block is allocated, hashed and moved as one piece.
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

// The KV cache of one rank: an arena of `num_blocks` blocks, addressed by block id. The block table
// of a sequence says which block holds which of its positions. So the key of the token at
// `position` for one layer and head is found by
//
//   const int32_t id = blocks[position / kv.layout.block_size];
//   const size_t at = kv.offset(layer, /*plane=*/0, kv_head, position % kv.layout.block_size);
//   const void* key = kv.block(id) + at * SizeOf(kv.layout.dtype);  // [head_dim]
struct PagedKv {
  std::byte* arena = nullptr;
  KvLayout layout;
  int32_t num_blocks = 0;

  std::byte* block(int32_t id) const { return arena + layout.block_bytes() * id; }
  std::span<std::byte> block_span(int32_t id) const { return {block(id), layout.block_bytes()}; }

  // Where [layer][plane][kv_head][token][0] lies in a block, counted in elements. Plane 0 holds K
  // and 1 holds V; `token` is the token's position in the block.
  size_t offset(int layer, int plane, int kv_head, int token) const {
    return (2 * static_cast<size_t>(layer) + plane) * layout.plane_elements() +
           kv_head * layout.head_elements() + static_cast<size_t>(token) * layout.head_dim;
  }
};

// One block of a cache that is copied, whole, to another one.
struct BlockCopy {
  int32_t from = 0, to = 0;  // ids
};

}  // namespace baton::kernels
