#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/engine/engine.h"
#include "common/transport/block_access.h"
#include "common/transport/kv_transport.h"

namespace baton {

// The receiving end of one granted reservation: the leased blocks, how much of each has arrived,
// and the push that writes them. Bytes are copied only while it is attached. Thread-safe.
//
// It is granted, then a push opens it, then it is committed; at any time it can be detached
// instead. A second push is refused.
class Reservation final : public KvInbox {
 public:
  struct Hooks {
    // The push is complete and verified; decoding may go on. Called without any lock held.
    std::function<void(const PushCommitment&)> committed;
    // This worker ends the push with this status. Called once at most, and neither when its stream
    // broke nor when its Decode stream is over (CANCELLED), so that nobody waits for it any more.
    std::function<void(const absl::Status&)> refused;
    // A push has come, with this traceparent; may be empty.
    std::function<void(const std::string&)> opened = {};
  };

  // `first_index` is the only index that a commit may carry, `vocab_size` bounds its token;
  // `blocks`, which writes the lease, outlives this.
  Reservation(const std::vector<LeasedBlock>& lease, int32_t first_index, int32_t vocab_size,
              const base::Clock* clock, Hooks hooks, const BlockAccess* blocks = &HostBlocks());

  // Called by KvReceiver when a push has shown the ticket. False when this reservation has or had a
  // push, or is detached.
  bool OpenPush(std::shared_ptr<KvPushReply> reply, const std::string& traceparent = {});

  // KvInbox, called by the transport's threads.
  absl::Status Write(const KvPiece& piece) override;
  absl::StatusOr<ByteParts> BeginWrite(int32_t ordinal, int64_t offset, int64_t size) override;
  void EndWrite(int32_t ordinal, int64_t size, const absl::Status& written) override;
  void Progress(int32_t computed_tokens) override;
  void Commit(PushCommitment commitment) override;
  void Closed() override;

  // Answers the push that it is committed.
  void Accept();
  // Ends the push, if there is one, with `status`.
  void Refuse(const absl::Status& status);
  // No byte is written any more once `idle` was called, which happens once: now, or when the writes
  // that run are over.
  void Detach(std::function<void()> idle);

  // When the push last carried a piece or a progress message; before that, when it was granted.
  base::Instant last_sign_of_life() const;

 private:
  // A leased block, and how much of it has arrived.
  struct Arrival {
    ByteParts ranks;
    int64_t size = 0;     // on all ranks
    int64_t begun = 0;    // bytes that were written or are being written
    int64_t filled = 0;   // bytes that were written
    bool direct = false;  // a transport that writes blocks itself has written some
  };

  absl::StatusOr<ByteParts> PlaceOf(const KvPiece& piece);
  // Finds the place for the next bytes of a block, or for its first ones again when the transport
  // that wrote the others has given it up.
  absl::StatusOr<ByteParts> Begin(int32_t ordinal, int64_t offset, int64_t size, bool direct);
  absl::StatusOr<ByteParts> Place(int32_t ordinal, int64_t offset, int64_t size)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckComplete(const PushCommitment& commitment) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Calls Hooks::refused, unless that is said already or nobody waits for the push.
  void TellRefused(const absl::Status& status);
  absl::Status CheckAlternatives(const std::vector<TokenLogprob>& top) const;

  const int32_t first_index_;
  const int32_t vocab_size_;
  const base::Clock* const clock_;
  const Hooks hooks_;
  const BlockAccess* const blocks_;
  mutable base::Mutex mutex_;
  std::map<int32_t, Arrival> arrivals_ ABSL_GUARDED_BY(mutex_);  // by ordinal
  std::shared_ptr<KvPushReply> reply_ ABSL_GUARDED_BY(mutex_);   // shared with the transport
  std::function<void()> idle_ ABSL_GUARDED_BY(mutex_);
  base::Instant last_sign_ ABSL_GUARDED_BY(mutex_);
  int64_t received_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int32_t complete_blocks_ ABSL_GUARDED_BY(mutex_) = 0;
  bool opened_ ABSL_GUARDED_BY(mutex_) = false;
  int writing_ ABSL_GUARDED_BY(mutex_) = 0;       // between BeginWrite and EndWrite
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;   // a write failed
  bool refused_ ABSL_GUARDED_BY(mutex_) = false;  // or over
  bool committed_ ABSL_GUARDED_BY(mutex_) = false;
  bool detached_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace baton
