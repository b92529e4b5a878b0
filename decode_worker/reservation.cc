#include "decode_worker/reservation.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/eos_probe.h"
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
                         int32_t vocab_size, const base::Clock* clock, Hooks hooks,
                         const BlockAccess* blocks)
    : first_index_(first_index),
      vocab_size_(vocab_size),
      clock_(clock),
      hooks_(std::move(hooks)),
      blocks_(blocks),
      last_sign_(clock->Now()) {
  for (const LeasedBlock& block : lease) {
    ByteParts ranks = block.ranks();
    const auto size = static_cast<int64_t>(SizeOf(ranks));
    arrivals_[block.ordinal] = {.ranks = std::move(ranks), .size = size};
  }
}

bool Reservation::OpenPush(std::shared_ptr<KvPushReply> reply, const std::string& traceparent) {
  {
    base::MutexLock lock(&mutex_);
    if (opened_ || detached_) return false;
    opened_ = true;
    reply_ = std::move(reply);
    last_sign_ = clock_->Now();
  }
  if (hooks_.opened) hooks_.opened(traceparent);
  return true;
}

absl::StatusOr<ByteParts> Reservation::Place(int32_t ordinal, int64_t offset, int64_t size) {
  if (detached_) return Gone();
  if (committed_) return BadPiece("a piece came after the commit");
  const auto found = arrivals_.find(ordinal);
  if (found == arrivals_.end()) {
    return BadPiece("a piece names block " + std::to_string(ordinal) +
                    ", which is not in the lease of " + std::to_string(arrivals_.size()) +
                    " blocks");
  }
  Arrival& arrival = found->second;
  const bool again = offset == 0 && arrival.direct && arrival.begun == arrival.filled;
  const int64_t expected = again ? 0 : arrival.begun;
  if (offset != expected || size <= 0 || size > arrival.size - expected) {
    return BadPiece("a piece of " + std::to_string(size) + " bytes at offset " +
                    std::to_string(offset) + " of block " + std::to_string(ordinal) +
                    "; expected offset " + std::to_string(expected) + " and 1 to " +
                    std::to_string(arrival.size - expected) + " bytes");
  }
  if (again) {
    received_bytes_ -= arrival.filled;
    if (arrival.filled == arrival.size) --complete_blocks_;
    arrival.begun = arrival.filled = 0;
    arrival.direct = false;
  }
  return Subrange(arrival.ranks, static_cast<size_t>(offset), static_cast<size_t>(size));
}

absl::StatusOr<ByteParts> Reservation::BeginWrite(int32_t ordinal, int64_t offset, int64_t size) {
  return Begin(ordinal, offset, size, /*direct=*/true);
}

absl::StatusOr<ByteParts> Reservation::Begin(int32_t ordinal, int64_t offset, int64_t size,
                                             bool direct) {
  base::Failpoint("receiving");
  base::MutexLock lock(&mutex_);
  auto place = Place(ordinal, offset, size);
  if (!place.ok()) return place;
  Arrival& arrival = arrivals_[ordinal];
  arrival.begun += size;
  arrival.direct = arrival.direct || direct;
  ++writing_;
  last_sign_ = clock_->Now();
  return place;
}

void Reservation::EndWrite(int32_t ordinal, int64_t size, const absl::Status& written) {
  std::function<void()> idle;
  bool refuse = false;
  {
    base::MutexLock lock(&mutex_);
    if (--writing_ == 0) idle = std::exchange(idle_, nullptr);
    refuse = !written.ok() && !std::exchange(broken_, true);
    if (written.ok()) {
      Arrival& arrival = arrivals_[ordinal];
      arrival.filled += size;
      received_bytes_ += size;
      if (arrival.filled == arrival.size) ++complete_blocks_;
    }
  }
  if (idle) idle();
  if (refuse) Refuse(written);
}

absl::StatusOr<ByteParts> Reservation::PlaceOf(const KvPiece& piece) {
  if (piece.size() > kMaxPieceBytes) {
    return BadPiece("a piece of " + std::to_string(piece.size()) + " bytes; expected 1 to " +
                    std::to_string(kMaxPieceBytes) + " bytes");
  }
  return Begin(piece.ordinal, piece.offset, static_cast<int64_t>(piece.size()), /*direct=*/false);
}

absl::Status Reservation::Write(const KvPiece& piece) {
  const auto size = static_cast<int64_t>(piece.size());
  const absl::StatusOr<ByteParts> target = PlaceOf(piece);
  if (!target.ok()) {
    TellRefused(target.status());
    return target.status();
  }
  // The checksum is computed from the message before the copy: a bad piece never reaches a block.
  uint32_t crc = 0;
  for (const std::span<const std::byte> part : piece.parts) crc = base::Crc32c(part, crc);
  absl::Status status;
  if (crc == piece.crc32c) {
    status = blocks_->Write(piece.parts, *target);
  } else {
    status =
        DataLoss("the checksum of block " + std::to_string(piece.ordinal) + " is " +
                 std::to_string(crc) + ", the sender computed " + std::to_string(piece.crc32c));
  }
  EndWrite(piece.ordinal, size, status);
  return status;
}

void Reservation::Progress(int32_t) {
  base::MutexLock lock(&mutex_);
  last_sign_ = clock_->Now();
}

absl::Status Reservation::CheckComplete(const PushCommitment& commitment) const {
  const auto blocks = static_cast<int32_t>(arrivals_.size());
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
  BATON_RETURN_IF_ERROR(CheckAlternatives(commitment.first_token.top_logprobs));
  const size_t products = commitment.first_token.probe.size();
  if (products > static_cast<size_t>(kMaxEosProbeDims)) {
    return BadPiece("the commit carries " + std::to_string(products) +
                    " products of a probe; expected at most " + std::to_string(kMaxEosProbeDims));
  }
  const auto& probe = commitment.first_token.probe;
  if (!std::ranges::all_of(probe, [](float product) { return std::isfinite(product); })) {
    return BadPiece("the commit carries products of a probe that are not finite numbers");
  }
  return absl::OkStatus();
}

absl::Status Reservation::CheckAlternatives(const std::vector<TokenLogprob>& top) const {
  std::set<int32_t> ids;
  for (const TokenLogprob& one : top) {
    const bool in_vocab = one.token >= 0 && one.token < vocab_size_;
    if (in_vocab && std::isfinite(one.logprob) && ids.insert(one.token).second) continue;
    return BadPiece("the commit carries token " + std::to_string(one.token) +
                    " of log-probability " + std::to_string(one.logprob) +
                    " among the most likely ones; expected finite numbers for ids below " +
                    std::to_string(vocab_size_) + ", each once");
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
  if (!status.ok()) return Refuse(status);
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
  TellRefused(status);
  if (reply != nullptr) reply->Answer(status);
}

void Reservation::TellRefused(const absl::Status& status) {
  {
    base::MutexLock lock(&mutex_);
    if (!opened_ || committed_ || std::exchange(refused_, true)) return;
  }
  if (status.code() != absl::StatusCode::kCancelled) hooks_.refused(status);
}

void Reservation::Detach(std::function<void()> idle) {
  {
    base::MutexLock lock(&mutex_);
    detached_ = true;
    if (writing_ > 0) {
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
