#include "common/transport/outbox.h"

#include <algorithm>
#include <utility>

#include "common/base/crc32c.h"
#include "common/base/status.h"

namespace baton {

void Outbox::Add(const std::vector<KvSource>& blocks) {
  blocks_.insert(blocks_.end(), blocks.begin(), blocks.end());
}

void Outbox::Note(int32_t computed_tokens) {
  if (!ends_) progress_ = PushProgressNote{computed_tokens};
}

void Outbox::Commit(PushCommitment commitment) {
  commit_ = std::move(commitment);
  progress_.reset();
  ends_ = true;
}

void Outbox::Clear() {
  blocks_.clear();
  part_ = part_offset_ = 0;
  offset_ = 0;
  progress_.reset();
  commit_.reset();
}

ConstByteParts Outbox::TakeParts() {
  const KvSource& block = blocks_.front();
  ConstByteParts parts;
  size_t room = kMaxPieceBytes;
  while (room > 0 && part_ < block.parts.size()) {
    const std::span<const std::byte> rest = block.parts[part_].subspan(part_offset_);
    const std::span<const std::byte> taken = rest.first(std::min(room, rest.size()));
    if (!taken.empty()) parts.push_back(taken);
    room -= taken.size();
    offset_ += static_cast<int64_t>(taken.size());
    part_offset_ += taken.size();
    if (taken.size() < rest.size()) break;
    ++part_;
    part_offset_ = 0;
  }
  return parts;
}

UnreadPiece Outbox::NextPiece() {
  UnreadPiece piece{.ordinal = blocks_.front().ordinal, .offset = offset_};
  piece.parts = TakeParts();
  if (part_ == blocks_.front().parts.size()) {
    blocks_.pop_front();
    part_ = 0;
    offset_ = 0;
  }
  return piece;
}

std::optional<UnreadItem> Outbox::Next() {
  std::optional<UnreadItem> item;
  if (!blocks_.empty()) {
    item = NextPiece();
  } else if (commit_) {
    item = *std::exchange(commit_, std::nullopt);
  } else if (progress_) {
    item = *progress_;
  }
  if (item) progress_.reset();
  return item;
}

absl::StatusOr<OutboxItem> ReadItem(UnreadItem item, const BlockAccess& blocks) {
  if (const auto* note = std::get_if<PushProgressNote>(&item)) return OutboxItem(*note);
  if (auto* commit = std::get_if<PushCommitment>(&item)) return OutboxItem(std::move(*commit));
  UnreadPiece& unread = std::get<UnreadPiece>(item);
  KvPiece piece{.ordinal = unread.ordinal, .offset = unread.offset};
  BATON_ASSIGN_OR_RETURN(BlockAccess::HostBytes host, blocks.Read(std::move(unread.parts)));
  for (const std::span<const std::byte> part : host.parts) {
    piece.crc32c = base::Crc32c(part, piece.crc32c);
  }
  piece.parts = std::move(host.parts);
  piece.copy = std::move(host.copy);
  return OutboxItem(std::move(piece));
}

}  // namespace baton
