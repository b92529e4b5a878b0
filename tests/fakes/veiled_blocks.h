#pragma once

#include <memory>
#include <span>
#include <vector>

#include "common/transport/block_access.h"

namespace baton {

// Blocks that the host cannot read as they are, as those of a GPU: each byte is stored veiled, so
// that a read or write that goes around the access shows.
class VeiledBlocks final : public BlockAccess {
 public:
  static constexpr std::byte kVeil{0x5a};

  absl::StatusOr<HostBytes> Read(ConstByteParts parts) const override {
    if (!fault.ok()) return fault;
    const size_t bytes = SizeOf(parts);
    std::shared_ptr<std::byte[]> copy(new std::byte[bytes]);
    CopyParts(parts, {{copy.get(), bytes}});
    for (size_t i = 0; i < bytes; ++i) copy[i] ^= kVeil;
    return HostBytes{.parts = {{copy.get(), bytes}}, .copy = std::move(copy)};
  }
  absl::Status Write(const ConstByteParts& from, const ByteParts& to) const override {
    if (!fault.ok()) return fault;
    CopyParts(from, to);
    for (const std::span<std::byte> part : to) {
      for (std::byte& b : part) b ^= kVeil;
    }
    return absl::OkStatus();
  }
  absl::Status Zero(const BlockRows& rows, std::span<std::byte> block) const override {
    if (!fault.ok()) return fault;
    for (size_t i = 0; i < block.size(); ++i) {
      const bool used = i % rows.row_bytes(block.size()) < rows.used_bytes(block.size());
      if (!used) block[i] = kVeil;
    }
    return absl::OkStatus();
  }

  absl::Status fault;  // what every access says
};

}  // namespace baton
