#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/transport/pair/pair_protocol.h"

// How a parcel lies in a staging buffer: a header of fixed size that says what the parcel is, then
// the parts one after the other, each at a multiple of kPartAlignment.
namespace baton {

constexpr int64_t kParcelHeaderBytes = 12288;
constexpr size_t kMaxParcelParts = 256;
constexpr int64_t kPartAlignment = 16;
static_assert(kParcelHeaderBytes % kPartAlignment == 0);

// Where a part of `size` bytes that begins at `offset` ends, its padding included.
constexpr int64_t PartEnd(int64_t offset, int64_t size) {
  return offset + (size + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
}
// Offsets of the parts in the staging buffer, and behind them the size of the whole parcel.
std::vector<int64_t> PartOffsets(const std::vector<ParcelPart>& parts);

struct ParcelHeader {
  uint64_t epoch = 0;
  ParcelPlan plan;
  bool is_void = false;
  bool has_sums = false;
  std::vector<uint64_t> sums;  // of the parts, when has_sums
};

// The header as kParcelHeaderBytes bytes, little-endian.
std::string EncodeParcelHeader(const ParcelHeader& header);
// Bytes that EncodeParcelHeader has not made are an error.
absl::StatusOr<ParcelHeader> DecodeParcelHeader(std::span<const std::byte> bytes);
// OK when `header` is what `plan` announced for that epoch. The message tells the difference, the
// ticket left out.
absl::Status CheckParcelHeader(const ParcelHeader& header, uint64_t epoch, const ParcelPlan& plan);

// Whether a plan that a peer announced is one that this side can receive.
absl::Status CheckParcelPlan(const ParcelPlan& plan, int64_t max_bytes);

}  // namespace baton
