#include "decode_worker/reservation.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/crc32c.h"
#include "common/base/failpoint.h"
#include "common/base/status.h"

namespace baton {
namespace {

absl::Status BadPiece(const std::string& message) {
  return absl::InvalidArgumentError(message + "; the sender is out of step with this reservation");
}

absl::Status DataLoss(const std::string& message) { return absl::DataLossError(message); }

absl::Status Gone() {
  return MakeError(absl::StatusCode::kAborted, {.reason = Reason::kRevoked},
                   "the reservation of this push is over; open a new attempt");
}

}  // namespace

Reservation::Reservation(const std::vector<LeasedBlock>& lease, int32_t first_index,
                         int32_t vocab_size, const base::Clock* clock, Hooks hooks)
    : first_index_(first_index),
      vocab_size_(vocab_size),
      clock_(clock),
      hooks_(std::move(hooks)),
      last_sign_(clock->Now()) {
  for (const LeasedBlock& block : lease) {
    ByteParts ranks = block.ranks();
    const auto size = static_cast<int64_t>(SizeOf(ranks));
    slots_[block.ordinal] = {.ranks = std::move(ranks), .size = size};
  }
}

bool Reservation::OpenPush(std::shared_ptr<KvPushReply> reply) {
  base::MutexLock lock(&mutex_);
  if (opened_ || detached_) return false;
  opened_ = true;
  reply_ = std::move(reply);
  last_sign_ = clock_->Now();
  return true;
}

absl::StatusOr<ByteParts> Reservation::BeginCopy(const KvPiece& piece) {
  base::MutexLock lock(&mutex_);
  if (detached_) return Gone();
  if (committed_) return BadPiece("a piece came after the commit");
  const auto found = slots_.find(piece.ordinal);
  if (found == slots_.end()) {
    return BadPiece("a piece names block " + std::to_string(piece.ordinal) +
                    ", which is not in the lease of " + std::to_string(slots_.size()) + " blocks");
  }
  const Slot& slot = found->second;
  const auto size = static_cast<int64_t>(piece.size());
  const auto room = slot.size - slot.filled;
  if (piece.offset != slot.filled || size == 0 || size > room || piece.size() > kMaxPieceBytes) {
    return BadPiece("a piece of " + std::to_string(size) + " bytes at offset " +
                    std::to_string(piece.offset) + " of block " + std::to_string(piece.ordinal) +
                    "; expected offset " + std::to_string(slot.filled) + " and 1 to " +
                    std::to_string(std::min<int64_t>(room, kMaxPieceBytes)) + " bytes");
  }
  copying_ = true;
  last_sign_ = clock_->Now();
  return Subrange(slot.ranks, static_cast<size_t>(piece.offset), piece.size());
}

void Reservation::EndCopy(const KvPiece& piece, bool copied) {
  std::function<void()> idle;
  {
    base::MutexLock lock(&mutex_);
    copying_ = false;
    idle = std::exchange(idle_, nullptr);
    if (copied) {
      Slot& slot = slots_[piece.ordinal];
      slot.filled += static_cast<int64_t>(piece.size());
      received_bytes_ += static_cast<int64_t>(piece.size());
      if (slot.filled == slot.size) ++complete_blocks_;
    }
  }
  if (idle) idle();
}

absl::Status Reservation::Write(const KvPiece& piece) {
  base::Failpoint("receiving");
  BATON_ASSIGN_OR_RETURN(const ByteParts target, BeginCopy(piece));
  // The checksum is computed from the message before the copy: a bad piece never reaches a block.
  uint32_t crc = 0;
  for (const std::span<const std::byte> part : piece.parts) crc = base::Crc32c(part, crc);
  const bool good = crc == piece.crc32c;
  if (good) CopyParts(piece.parts, target);
  EndCopy(piece, good);
  if (good) return absl::OkStatus();
  absl::Status status =
      DataLoss("the checksum of block " + std::to_string(piece.ordinal) + " is " +
               std::to_string(crc) + ", the sender computed " + std::to_string(piece.crc32c));
  hooks_.refused(status);
  return status;
}

void Reservation::Progress(int32_t) {
  base::MutexLock lock(&mutex_);
  last_sign_ = clock_->Now();
}

absl::Status Reservation::CheckComplete(const PushCommitment& commitment) const {
  const auto blocks = static_cast<int32_t>(slots_.size());
  if (complete_blocks_ != blocks || commitment.block_count != blocks ||
      commitment.byte_count != received_bytes_) {
    return DataLoss("the commit names " + std::to_string(commitment.block_count) + " blocks and " +
                    std::to_string(commitment.byte_count) + " bytes; " +
                    std::to_string(complete_blocks_) + " of " + std::to_string(blocks) +
                    " leased blocks are complete with " + std::to_string(received_bytes_) +
                    " bytes");
  }
  const int32_t token = commitment.first_token.token;
  if (commitment.first_index != first_index_ || token < 0 || token >= vocab_size_) {
    return BadPiece("the commit carries token " + std::to_string(token) + " at index " +
                    std::to_string(commitment.first_index) + "; expected an id below " +
                    std::to_string(vocab_size_) + " at index " + std::to_string(first_index_));
  }
  return absl::OkStatus();
}

void Reservation::Commit(PushCommitment commitment) {
  absl::Status status;
  {
    base::MutexLock lock(&mutex_);
    status = detached_ ? Gone() : CheckComplete(commitment);
    if (status.ok()) committed_ = true;
  }
  if (!status.ok()) {
    hooks_.refused(status);
    return Refuse(status);
  }
  base::Failpoint("committing");
  hooks_.committed(commitment);
}

void Reservation::Closed() {
  base::MutexLock lock(&mutex_);
  reply_.reset();
}

void Reservation::Accept() {
  std::shared_ptr<KvPushReply> reply;
  int32_t blocks = 0;
  {
    base::MutexLock lock(&mutex_);
    reply = reply_;
    blocks = complete_blocks_;
  }
  if (reply != nullptr) reply->Answer(blocks);
}

void Reservation::Refuse(const absl::Status& status) {
  std::shared_ptr<KvPushReply> reply;
  {
    base::MutexLock lock(&mutex_);
    reply = reply_;
  }
  if (reply != nullptr) reply->Answer(status);
}

void Reservation::Detach(std::function<void()> idle) {
  {
    base::MutexLock lock(&mutex_);
    detached_ = true;
    if (copying_) {
      idle_ = std::move(idle);
      return;
    }
  }
  idle();
}

base::Instant Reservation::last_sign_of_life() const {
  base::MutexLock lock(&mutex_);
  return last_sign_;
}

}  // namespace baton
