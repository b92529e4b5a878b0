#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/kv/block_layout.h"

namespace baton {

// How the host reaches the bytes of KV blocks, which may lie in the memory of devices. Thread-safe;
// calls wait for their copies. An error is the device's.
class BlockAccess {
 public:
  // Bytes that the host can read, for as long as this stands. Without `copy` they are the blocks'
  // own.
  struct HostBytes {
    ConstByteParts parts;
    std::shared_ptr<const std::byte[]> copy;
  };

  virtual ~BlockAccess() = default;
  // `parts` of a block, at most kMaxPieceBytes in all, in their order.
  virtual absl::StatusOr<HostBytes> Read(ConstByteParts parts) const = 0;
  // Copies host bytes to `to`, parts of a block and together as many.
  virtual absl::Status Write(const ConstByteParts& from, const ByteParts& to) const = 0;
  // Zeroes what nobody owns of a block on one rank: see block_layout.h.
  virtual absl::Status Zero(const BlockRows& rows, std::span<std::byte> block) const = 0;
};

// Blocks in the host's memory: nothing is copied to be read.
const BlockAccess& HostBlocks();

}  // namespace baton
