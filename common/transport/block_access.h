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
  // Bytes that the host can read for as long as this object lives. They are the blocks' own bytes,
  // or lie in `copy` if there is one.
  struct HostBytes {
    ConstByteParts parts;
    std::shared_ptr<const std::byte[]> copy;
  };

  virtual ~BlockAccess() = default;
  // Makes `parts` of a block readable, at most kMaxPieceBytes in all, in their order.
  virtual absl::StatusOr<HostBytes> Read(ConstByteParts parts) const = 0;
  // Copies host bytes to `to`, which are parts of a block and together as many bytes.
  virtual absl::Status Write(const ConstByteParts& from, const ByteParts& to) const = 0;
  // Zeroes the positions of tokens that are not in use in a block on one rank.
  virtual absl::Status Zero(const BlockRows& rows, std::span<std::byte> block) const = 0;
};

// How the host reaches blocks in its own memory: nothing is copied to be read.
const BlockAccess& HostBlocks();

}  // namespace baton
