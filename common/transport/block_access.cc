#include "common/transport/block_access.h"

#include <algorithm>

namespace baton {
namespace {

class HostBlockAccess final : public BlockAccess {
 public:
  absl::StatusOr<HostBytes> Read(std::span<const std::byte> block) const override {
    return HostBytes{.bytes = block, .copy = nullptr};
  }
  absl::Status Write(const std::vector<std::span<const std::byte>>& parts,
                     std::span<std::byte> block) const override {
    auto to = block.begin();
    for (const std::span<const std::byte> part : parts) to = std::ranges::copy(part, to).out;
    return absl::OkStatus();
  }
};

}  // namespace

const BlockAccess& HostBlocks() {
  static const auto* const blocks = new HostBlockAccess;
  return *blocks;
}

}  // namespace baton
