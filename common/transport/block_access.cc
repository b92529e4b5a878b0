#include "common/transport/block_access.h"

#include <utility>

namespace baton {
namespace {

class HostBlockAccess final : public BlockAccess {
 public:
  absl::StatusOr<HostBytes> Read(ConstByteParts parts) const override {
    return HostBytes{.parts = std::move(parts), .copy = nullptr};
  }
  absl::Status Write(const ConstByteParts& from, const ByteParts& to) const override {
    CopyParts(from, to);
    return absl::OkStatus();
  }
  absl::Status Zero(const BlockRows& rows, std::span<std::byte> block) const override {
    ZeroUnused(rows, block);
    return absl::OkStatus();
  }
};

}  // namespace

const BlockAccess& HostBlocks() {
  static const auto* const blocks = new HostBlockAccess;
  return *blocks;
}

}  // namespace baton
