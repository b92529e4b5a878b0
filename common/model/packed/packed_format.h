#pragma once

#include <cstddef>
#include <cstdint>

// What the reader and the writer of a file of packed weights agree on. The file begins with the
// data: the parts of the images, each at a multiple of kernels::kImageAlignment and followed by
// kImageMargin zeros, so that every offset in the file is one in memory. Behind the data stands a
// JSON object, and behind that, as the last bytes of the file, the Tail.
//
//   {"identity": "...", "crc32c": "eight hexadecimal digits for every piece of the data",
//    "images": {"NAME": {"form": "...", "parts": [[begin, bytes], ...]}, ...}}
namespace baton::packed {

inline constexpr int kVersion = 1;  // of the format, and of the order and the names of images
inline constexpr uint64_t kMagic = 0x31574b5041424e4fULL;
// What is written and checked at once. Large pieces at multiples of 2 MiB also let the system keep
// the file in huge pages.
inline constexpr size_t kPieceBytes = size_t{16} << 20;
inline constexpr size_t kSumDigits = 8;
inline constexpr char kIdentity[] = "identity";
inline constexpr char kSums[] = "crc32c";
inline constexpr char kImages[] = "images";
inline constexpr char kForm[] = "form";
inline constexpr char kParts[] = "parts";

struct Tail {
  uint64_t data_bytes = 0;
  uint64_t json_bytes = 0;
  uint64_t json_sum = 0;  // CRC-32C
  uint64_t magic = kMagic;
};

inline size_t Pieces(size_t bytes) { return (bytes + kPieceBytes - 1) / kPieceBytes; }

}  // namespace baton::packed
