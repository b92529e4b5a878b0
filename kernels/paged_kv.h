#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/dtype.h"

namespace baton::kernels {

// The shape of one KV block: the keys and values of `block_size` consecutive tokens of a sequence,
// for all layers. Its rows are contiguous as [layer][k|v][kv_head][token], so that a block is
// allocated, hashed and moved as one piece. A row is K or V of one token and head, [head_dim]:
//
//   floats  as they are, rounded to the type
//   kInt8   int8 codes, then their scale in fp32: an element is code * scale
//   kFp8    e4m3 codes, with one scale for all K and one for all V of a layer (AttentionShape)
//
// What a row holds depends on its own K or V alone and never on the tokens beside it. So it has the
// same bits however its prompt is cut into steps (kv_row.h).
struct KvLayout {
  DType dtype = DType::kF32;
  int block_size = 16;  // tokens
  int layers = 0;
  int kv_heads = 0;
  int head_dim = 0;

  friend bool operator==(const KvLayout&, const KvLayout&) = default;

  // Whether the elements are codes of one byte. Kernels read four of them as a word.
  bool quantized() const { return SizeOf(dtype) == 1; }
  static constexpr int kQuantizedDims = 16;  // a quantized head has a multiple of as many elements

  size_t row_bytes() const {
    return static_cast<size_t>(head_dim) * SizeOf(dtype) +
           (dtype == DType::kInt8 ? sizeof(float) : 0);
  }
  size_t head_bytes() const { return static_cast<size_t>(block_size) * row_bytes(); }
  size_t plane_bytes() const { return kv_heads * head_bytes(); }  // K or V of one layer
  size_t block_bytes() const { return 2 * layers * plane_bytes(); }
  size_t block_elements() const {  // numbers, which are not block_bytes() / SizeOf(dtype) of codes
    return 2 * static_cast<size_t>(layers) * kv_heads * block_size * head_dim;
  }
  size_t bytes_per_token() const { return block_bytes() / block_size; }
};

// The KV cache of one rank: an arena of `num_blocks` blocks, addressed by block id. The block table
// of a sequence says which block holds which of its positions. So the key of the token at
// `position` for one layer and head is found by
//
//   const int32_t id = blocks[position / kv.layout.block_size];
//   const std::byte* key =
//       kv.block(id) + kv.offset(layer, /*plane=*/0, kv_head, position % kv.layout.block_size);
struct PagedKv {
  std::byte* arena = nullptr;
  KvLayout layout;
  int32_t num_blocks = 0;

  std::byte* block(int32_t id) const { return arena + layout.block_bytes() * id; }
  std::span<std::byte> block_span(int32_t id) const { return {block(id), layout.block_bytes()}; }

  // Where the row [layer][plane][kv_head][token] lies in a block, in bytes. Plane 0 holds K and 1
  // holds V; `token` is the token's position in the block.
  size_t offset(int layer, int plane, int kv_head, int token) const {
    return (2 * static_cast<size_t>(layer) + plane) * layout.plane_bytes() +
           kv_head * layout.head_bytes() + static_cast<size_t>(token) * layout.row_bytes();
  }
};

// One block that is copied, whole, to another one of the same arena or of another.
struct BlockCopy {
  int32_t from = 0, to = 0;  // ids
};

}  // namespace baton::kernels
