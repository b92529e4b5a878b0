#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/kv_shape.h"

namespace baton {

// Bytes that lie in several places of memory and are one thing in this order.
using ByteParts = std::vector<std::span<std::byte>>;
using ConstByteParts = std::vector<std::span<const std::byte>>;

// A block of a worker of shape `from`, given as its part on each rank, in the order of shape `to`:
// heads are split off or joined, nothing is copied. Heads that `to` holds more than once come more
// than once. Neighbours in memory become one part, so for equal shapes this is `ranks` itself.
// Demands CanHandOver(from, to).
ConstByteParts InOrderOf(const KvShape& to, const KvShape& from, const ByteParts& ranks);

size_t SizeOf(const ByteParts& parts);
// The bytes [offset, offset + size) of them all; they must be there.
ByteParts Subrange(const ByteParts& parts, size_t offset, size_t size);
// As many bytes on both sides, cut in whatever way.
void CopyParts(const ConstByteParts& from, const ByteParts& to);

}  // namespace baton
