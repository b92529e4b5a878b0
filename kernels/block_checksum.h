#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace baton::kernels {

// One term of the checksum: the 64-bit little-endian word at position `index` of the bytes. The mix
// is splitmix64's.
constexpr uint64_t ChecksumTerm(uint64_t word, uint64_t index) {
  uint64_t x = word + (index + 1) * 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// 64-bit checksum of KV bytes that move between devices: the sum, modulo 2^64, of the terms of all
// words, a tail shorter than a word padded with zeros. A sum, so that any number of threads may add
// it up in any order; mixed with the position, so that swapped words show.
inline uint64_t BlockChecksum(std::span<const std::byte> bytes) {
  uint64_t sum = 0;
  uint64_t index = 0;
  size_t at = 0;
  for (; at + sizeof(uint64_t) <= bytes.size(); at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    sum += ChecksumTerm(word, index++);
  }
  if (at < bytes.size()) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, bytes.size() - at);
    sum += ChecksumTerm(word, index);
  }
  return sum;
}

}  // namespace baton::kernels
