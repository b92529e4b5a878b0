#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/transport/pair/pair_protocol.h"

// How a chunk lies in a staging buffer: a header of fixed size that says what the chunk is, then
// the parts one after the other, each at a multiple of kPartAlignment.
namespace baton {

constexpr int64_t kChunkHeaderBytes = 12288;
constexpr size_t kMaxChunkParts = 256;
constexpr int64_t kPartAlignment = 16;
static_assert(kChunkHeaderBytes % kPartAlignment == 0);

// Where a part of `size` bytes ends that begins at `offset`, with its padding.
constexpr int64_t PartEnd(int64_t offset, int64_t size) {
  return offset + (size + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
}
// Offsets of the parts in the staging buffer, and behind them the size of the whole chunk.
std::vector<int64_t> PartOffsets(const std::vector<ChunkPart>& parts);

struct ChunkHeader {
  uint64_t epoch = 0;
  ChunkPlan plan;
  bool is_void = false;
  bool has_sums = false;
  std::vector<uint64_t> sums;  // of the parts, when has_sums
};

// kChunkHeaderBytes bytes, little-endian.
std::string EncodeChunkHeader(const ChunkHeader& header);
// An error for bytes that no EncodeChunkHeader made.
absl::StatusOr<ChunkHeader> DecodeChunkHeader(std::span<const std::byte> bytes);
// OK when `header` is what `plan` announced for that epoch. The message tells the difference, the
// ticket left out.
absl::Status CheckChunkHeader(const ChunkHeader& header, uint64_t epoch, const ChunkPlan& plan);

// Whether a plan that a peer announced is one that this side can receive.
absl::Status CheckChunkPlan(const ChunkPlan& plan, int64_t max_bytes);

}  // namespace baton
