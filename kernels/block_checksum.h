#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

// The 64-bit checksum that goes with KV bytes from device to device. It is C++17, because CUDA
// sources include it.
namespace baton::kernels {

// What word number `index` adds to the checksum. For every index it is a bijection of the word, so
// one changed word always shows; words that change places show as well.
constexpr uint64_t ChecksumTerm(uint64_t word, uint64_t index) {
  uint64_t h = word + (index + 1) * 0x9E3779B97F4A7C15u;
  h ^= h >> 32;
  h *= 0xD6E8FEB86659FD93u;
  return h ^ h >> 32;
}

// The sum modulo 2^64 of the terms of all 8-byte little-endian words, the last of which is filled
// up with zeros. It does not depend on the order of the additions, so threads can share the work.
// It guards against faults of memory and links and against a wrong piece, not against an attacker.
inline uint64_t BlockChecksum(const void* data, size_t bytes) {
  const auto* from = static_cast<const unsigned char*>(data);
  uint64_t sum = 0;
  uint64_t index = 0;
  for (; bytes >= sizeof(uint64_t); bytes -= sizeof(uint64_t), from += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, from, sizeof(word));
    sum += ChecksumTerm(word, index++);
  }
  if (bytes > 0) {
    uint64_t word = 0;
    std::memcpy(&word, from, bytes);
    sum += ChecksumTerm(word, index);
  }
  return sum;
}

}  // namespace baton::kernels
