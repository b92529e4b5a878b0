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

  absl::StatusOr<HostBytes> Read(std::span<const std::byte> block) const override {
    if (!fault.ok()) return fault;
    std::shared_ptr<std::byte[]> copy(new std::byte[block.size()]);
    for (size_t i = 0; i < block.size(); ++i) copy[i] = block[i] ^ kVeil;
    const std::span<const std::byte> bytes(copy.get(), block.size());
    return HostBytes{.bytes = bytes, .copy = std::move(copy)};
  }
  absl::Status Write(const std::vector<std::span<const std::byte>>& parts,
                     std::span<std::byte> block) const override {
    if (!fault.ok()) return fault;
    size_t at = 0;
    for (const std::span<const std::byte> part : parts) {
      for (const std::byte b : part) block[at++] = b ^ kVeil;
    }
    return absl::OkStatus();
  }

  absl::Status fault;  // what every access says
};

}  // namespace baton
