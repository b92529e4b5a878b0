#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace baton::base {

// CRC-32C (Castagnoli, reflected 0x82F63B78), as in RFC 3720. Pass the previous value to continue.
// Uses the SSE 4.2 instruction where the processor has it.
uint32_t Crc32c(std::span<const std::byte> data, uint32_t crc = 0);

// The table version, for machines without the instruction and as its oracle.
uint32_t Crc32cPortable(std::span<const std::byte> data, uint32_t crc = 0);

}  // namespace baton::base
