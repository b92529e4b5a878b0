#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

// What the reader and the writer of a load cache agree on. It is a safetensors file whose metadata
// says what it holds and gives a CRC-32C for every piece of every tensor.
namespace baton::load_cache {

inline constexpr int kVersion = 2;  // of the format, and of the order and the names of tensors
// Of what is made of a checkpoint, for caches of packed weights as well: whoever corrects how any
// is read raises it, so that nobody is given what was read before.
inline constexpr int kReading = 3;
inline constexpr char kIdentity[] = "baton_load_cache";
inline constexpr char kSums[] = "crc32c";
inline constexpr size_t kSumDigits = 8;  // of one checksum, hexadecimal
inline constexpr size_t kPieceBytes = size_t{16} << 20;

inline size_t Pieces(size_t bytes) { return (bytes + kPieceBytes - 1) / kPieceBytes; }

inline std::span<const std::byte> Piece(std::span<const std::byte> tensor, size_t index) {
  const size_t begin = index * kPieceBytes;
  return tensor.subspan(begin, std::min(kPieceBytes, tensor.size() - begin));
}

}  // namespace baton::load_cache
