#include "common/transport/pair/pair_parcel.h"

#include <algorithm>
#include <cstring>

namespace baton {
namespace {

constexpr uint64_t kMagic = 0x3176'6e6f'7461'6200;  // "\0batonv1" as bytes
constexpr uint32_t kVoid = 1;
constexpr uint32_t kSums = 2;

// These structures travel as they lie in memory: every machine that has pairs is little-endian.
struct FixedPart {
  uint64_t magic = kMagic;
  uint64_t epoch = 0;
  uint64_t number = 0;
  uint64_t bytes = 0;
  uint64_t incarnation = 0;
  uint8_t secret[Ticket::kSecretBytes] = {};
  uint32_t flags = 0;
  uint32_t parts = 0;
};
struct PartRow {
  int64_t offset = 0;
  int64_t size = 0;
  uint64_t sum = 0;
  int32_t ordinal = 0;
  int32_t unused = 0;
};
static_assert(sizeof(FixedPart) == 64 && sizeof(PartRow) == 32);
static_assert(sizeof(FixedPart) + kMaxParcelParts * sizeof(PartRow) <= kParcelHeaderBytes);

absl::Status Mismatch(const std::string& what, uint64_t found, uint64_t expected) {
  return absl::DataLossError("a parcel says " + what + " " + std::to_string(found) + ", expected " +
                             std::to_string(expected) +
                             "; the two sides of the pair are out of step");
}

}  // namespace

std::vector<int64_t> PartOffsets(const std::vector<ParcelPart>& parts) {
  std::vector<int64_t> offsets = {kParcelHeaderBytes};
  for (const ParcelPart& part : parts) offsets.push_back(PartEnd(offsets.back(), part.size));
  return offsets;
}

std::string EncodeParcelHeader(const ParcelHeader& header) {
  std::string bytes(kParcelHeaderBytes, '\0');
  FixedPart fixed;
  fixed.epoch = header.epoch;
  fixed.number = header.plan.number;
  fixed.bytes = static_cast<uint64_t>(header.plan.bytes);
  fixed.incarnation = header.plan.ticket.incarnation;
  std::ranges::copy(header.plan.ticket.secret, fixed.secret);
  fixed.flags = (header.is_void ? kVoid : 0) | (header.has_sums ? kSums : 0);
  fixed.parts = static_cast<uint32_t>(header.plan.parts.size());
  std::memcpy(bytes.data(), &fixed, sizeof fixed);
  char* to = bytes.data() + sizeof fixed;
  for (size_t i = 0; i < header.plan.parts.size(); ++i, to += sizeof(PartRow)) {
    const ParcelPart& part = header.plan.parts[i];
    const PartRow row{part.offset, part.size, header.has_sums ? header.sums[i] : 0, part.ordinal};
    std::memcpy(to, &row, sizeof row);
  }
  return bytes;
}

absl::StatusOr<ParcelHeader> DecodeParcelHeader(std::span<const std::byte> bytes) {
  FixedPart fixed;
  if (bytes.size() < kParcelHeaderBytes) {
    return absl::DataLossError("a parcel has " + std::to_string(bytes.size()) +
                               " bytes, less than its header");
  }
  std::memcpy(&fixed, bytes.data(), sizeof fixed);
  if (fixed.magic != kMagic || fixed.parts > kMaxParcelParts || (fixed.flags & ~(kVoid | kSums))) {
    return absl::DataLossError("what arrived is no parcel of this version");
  }
  ParcelHeader header{.epoch = fixed.epoch,
                      .is_void = (fixed.flags & kVoid) != 0,
                      .has_sums = (fixed.flags & kSums) != 0};
  header.plan.number = fixed.number;
  header.plan.bytes = static_cast<int64_t>(fixed.bytes);
  header.plan.ticket.incarnation = fixed.incarnation;
  std::ranges::copy(fixed.secret, header.plan.ticket.secret.begin());
  const std::byte* from = bytes.data() + sizeof fixed;
  for (uint32_t i = 0; i < fixed.parts; ++i, from += sizeof(PartRow)) {
    PartRow row;
    std::memcpy(&row, from, sizeof row);
    header.plan.parts.push_back({row.ordinal, row.offset, row.size});
    if (header.has_sums) header.sums.push_back(row.sum);
  }
  return header;
}

absl::Status CheckParcelHeader(const ParcelHeader& header, uint64_t epoch, const ParcelPlan& plan) {
  if (header.epoch != epoch) return Mismatch("epoch", header.epoch, epoch);
  if (header.plan.number != plan.number) {
    return Mismatch("number", header.plan.number, plan.number);
  }
  if (header.plan.bytes != plan.bytes) {
    return Mismatch("bytes", static_cast<uint64_t>(header.plan.bytes),
                    static_cast<uint64_t>(plan.bytes));
  }
  if (!SameTicket(header.plan.ticket, plan.ticket)) {
    return absl::DataLossError("a parcel carries another ticket than its announcement");
  }
  if (header.plan.parts != plan.parts) {
    return absl::DataLossError("a parcel names other parts of blocks than its announcement");
  }
  return absl::OkStatus();
}

absl::Status CheckParcelPlan(const ParcelPlan& plan, int64_t max_bytes) {
  if (plan.parts.size() > kMaxParcelParts) {
    return absl::InvalidArgumentError("a parcel of " + std::to_string(plan.parts.size()) +
                                      " parts, at most " + std::to_string(kMaxParcelParts));
  }
  int64_t end = kParcelHeaderBytes;
  for (const ParcelPart& part : plan.parts) {
    if (part.size <= 0 || part.size > max_bytes || part.offset < 0 || part.ordinal < 0) {
      return absl::InvalidArgumentError("a parcel names a part that cannot be");
    }
    end = PartEnd(end, part.size);
    if (end > max_bytes) break;
  }
  if (end != plan.bytes || end > max_bytes) {
    return absl::InvalidArgumentError("a parcel of " + std::to_string(plan.bytes) +
                                      " bytes whose parts need " + std::to_string(end) +
                                      "; at most " + std::to_string(max_bytes));
  }
  return absl::OkStatus();
}

}  // namespace baton
