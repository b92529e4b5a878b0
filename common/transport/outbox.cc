#include "common/transport/outbox.h"

#include <algorithm>
#include <utility>

#include "common/base/crc32c.h"

namespace baton {

void Outbox::Add(const std::vector<KvSource>& blocks) {
  blocks_.insert(blocks_.end(), blocks.begin(), blocks.end());
}

void Outbox::Clear() {
  blocks_.clear();
  offset_ = 0;
  progress_.reset();
  commit_.reset();
}

std::optional<OutboxItem> Outbox::Next() {
  if (!blocks_.empty()) {
    const KvSource& block = blocks_.front();
    const size_t size = std::min(kMaxPieceBytes, block.bytes.size() - offset_);
    const std::span<const std::byte> bytes = block.bytes.subspan(offset_, size);
    KvPiece piece{.ordinal = block.ordinal,
                  .offset = static_cast<int64_t>(offset_),
                  .parts = {bytes},
                  .crc32c = base::Crc32c(bytes)};
    offset_ += size;
    if (offset_ == block.bytes.size()) {
      blocks_.pop_front();
      offset_ = 0;
    }
    progress_.reset();
    return piece;
  }
  if (commit_) {
    PushCommitment commit = *std::exchange(commit_, std::nullopt);
    progress_.reset();
    return commit;
  }
  if (progress_) return *std::exchange(progress_, std::nullopt);
  return std::nullopt;
}

}  // namespace baton
