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
  part_ = part_offset_ = 0;
  offset_ = 0;
  progress_.reset();
  commit_.reset();
}

KvPiece Outbox::NextPiece() {
  const KvSource& block = blocks_.front();
  KvPiece piece{.ordinal = block.ordinal, .offset = offset_};
  size_t room = kMaxPieceBytes;
  while (room > 0 && part_ < block.parts.size()) {
    const std::span<const std::byte> rest = block.parts[part_].subspan(part_offset_);
    const std::span<const std::byte> taken = rest.first(std::min(room, rest.size()));
    if (!taken.empty()) piece.parts.push_back(taken);
    piece.crc32c = base::Crc32c(taken, piece.crc32c);
    room -= taken.size();
    offset_ += static_cast<int64_t>(taken.size());
    part_offset_ += taken.size();
    if (taken.size() < rest.size()) break;
    ++part_;
    part_offset_ = 0;
  }
  if (part_ == block.parts.size()) {
    blocks_.pop_front();
    part_ = 0;
    offset_ = 0;
  }
  return piece;
}

std::optional<OutboxItem> Outbox::Next() {
  if (!blocks_.empty()) {
    progress_.reset();
    return NextPiece();
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
