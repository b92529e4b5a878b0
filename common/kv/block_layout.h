#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/kv_shape.h"

namespace baton {

// Bytes that lie in several places of memory and, in this order, make up one thing.
using ByteParts = std::vector<std::span<std::byte>>;
using ConstByteParts = std::vector<std::span<const std::byte>>;

// Puts a block of a worker of shape `from`, given as its part on each rank, into the order of shape
// `to`. Heads are split off or joined by addresses, and nothing is copied. Heads that `to` holds
// more than once come more than once. Neighbours in memory become one part, so for equal shapes
// this is `ranks` itself. Demands CanHandOver(from, to).
ConstByteParts InOrderOf(const KvShape& to, const KvShape& from, const ByteParts& ranks);

size_t SizeOf(const ByteParts& parts);
size_t SizeOf(const ConstByteParts& parts);
// The bytes [offset, offset + size) of all parts together; there must be as many.
ByteParts Subrange(const ByteParts& parts, size_t offset, size_t size);
ConstByteParts Subrange(const ConstByteParts& parts, size_t offset, size_t size);
// Copies bytes. Both sides hold as many, cut in whatever way.
void CopyParts(const ConstByteParts& from, const ByteParts& to);

// Where the positions of a block lie on one rank. The block is a sequence of rows, one for each
// layer, plane (K or V) and head; a row has a position for each token, and the first `used` of them
// hold KV of the block's owner.
struct BlockRows {
  int32_t rows = 0;
  int32_t block_size = 0;  // positions of a row
  int32_t used = 0;

  static BlockRows Of(const KvShape& shape, int32_t used) {
    return {2 * shape.layers * shape.heads_per_rank(), shape.block_size, used};
  }
  // `block_bytes` is the size of the whole block.
  size_t row_bytes(size_t block_bytes) const { return block_bytes / static_cast<size_t>(rows); }
  size_t used_bytes(size_t block_bytes) const {
    return row_bytes(block_bytes) / static_cast<size_t>(block_size) * static_cast<size_t>(used);
  }
};
// Zeroes the positions that are not in use, so that a block that leaves this worker carries nothing
// of its former owners. Only for a block that nobody shares.
void ZeroUnused(const BlockRows& rows, std::span<std::byte> block);

}  // namespace baton
