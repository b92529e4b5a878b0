#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace baton::kernels::reference {

// to = from, bytes [offset, offset + from.size()) of a block of slots [..][block_size][slot_bytes],
// with zeros for the slots from `used_slots` on (-1: all are in use). Returns BlockChecksum of
// `to`.
uint64_t CopyBlockPart(std::span<const std::byte> from, std::span<std::byte> to, int64_t offset,
                       int32_t used_slots, int32_t slot_bytes, int32_t block_size);

}  // namespace baton::kernels::reference
