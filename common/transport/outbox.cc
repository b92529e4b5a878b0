#include "common/transport/outbox.h"

#include <algorithm>
#include <utility>

#include "common/base/crc32c.h"
#include "common/base/status.h"

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

absl::StatusOr<KvPiece> Outbox::NextPiece() {
  const KvSource& block = blocks_.front();
  const size_t size = std::min(kMaxPieceBytes, block.bytes.size() - offset_);
  BATON_ASSIGN_OR_RETURN(BlockAccess::HostBytes host,
                         access_->Read(block.bytes.subspan(offset_, size)));
  KvPiece piece{.ordinal = block.ordinal,
                .offset = static_cast<int64_t>(offset_),
                .parts = {host.bytes},
                .crc32c = base::Crc32c(host.bytes),
                .copy = std::move(host.copy)};
  offset_ += size;
  if (offset_ == block.bytes.size()) {
    blocks_.pop_front();
    offset_ = 0;
  }
  return piece;
}

absl::StatusOr<std::optional<OutboxItem>> Outbox::Next() {
  if (!blocks_.empty()) {
    BATON_ASSIGN_OR_RETURN(KvPiece piece, NextPiece());
    progress_.reset();
    return OutboxItem(std::move(piece));
  }
  if (commit_) {
    PushCommitment commit = *std::exchange(commit_, std::nullopt);
    progress_.reset();
    return OutboxItem(std::move(commit));
  }
  if (progress_) return OutboxItem(*std::exchange(progress_, std::nullopt));
  return std::optional<OutboxItem>();
}

}  // namespace baton
