#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace baton {

// How the host reaches the bytes of KV blocks, which may lie in a device's memory. Thread-safe.
class BlockAccess {
 public:
  // Bytes that the host can read, for as long as this stands. Without `copy` they are the block's
  // own.
  struct HostBytes {
    std::span<const std::byte> bytes;
    std::shared_ptr<const std::byte[]> copy;
  };

  virtual ~BlockAccess() = default;
  // At most kMaxPieceBytes. An error is the device's.
  virtual absl::StatusOr<HostBytes> Read(std::span<const std::byte> block) const = 0;
  // Copies `parts`, host bytes one after the other and together as many as `block`, and waits.
  virtual absl::Status Write(const std::vector<std::span<const std::byte>>& parts,
                             std::span<std::byte> block) const = 0;
};

// Blocks in the host's memory: nothing is copied to be read.
const BlockAccess& HostBlocks();

}  // namespace baton
