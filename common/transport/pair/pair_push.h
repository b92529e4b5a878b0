#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/base/mutex.h"
#include "common/transport/kv_transport.h"
#include "common/transport/pair/pair_sender.h"

namespace baton {

class PairTransport;

// One push over a pair. Its blocks go through the pair; its open, progress and commit go by
// messages. The commit is sent when every block has arrived. Blocks that the pair gave back are
// sent by messages as soon as nothing of this push is under way in the pair any more. Thread-safe.
class PairPush final : public KvPush, public KvPushObserver {
 public:
  PairPush(PairTransport* transport, PushId id, std::shared_ptr<KvPushObserver> observer,
           const base::Clock* clock)
      : transport_(transport), id_(id), observer_(std::move(observer)), clock_(clock) {}
  // Called once, before anything else.
  void SetMessages(std::shared_ptr<KvPush> messages);

  void Send(std::vector<KvSource> blocks) override;
  void Progress(int32_t computed_tokens) override;
  void Commit(PushCommitment commitment) override;
  void Cancel() override;
  base::Instant waiting_since() const override;

  // Called at the end of the stream of messages.
  void OnPushDone(absl::Status status) override;
  // Called by the pair: what became of parts, and that it reads no byte of this push any more.
  void OnParts(const std::vector<ParcelPart>& parts, bool done);
  void OnReleased();

 private:
  struct Block {
    ConstByteParts bytes;
    int64_t size = 0;
    int64_t done = 0;
  };
  // Goes on by messages when the pair holds nothing of this push.
  void FlushIfSettled() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellIfOver();

  PairTransport* const transport_;
  const PushId id_;
  std::shared_ptr<KvPushObserver> observer_;  // shared with its owner until told
  const base::Clock* const clock_;
  mutable base::Mutex mutex_;
  std::shared_ptr<KvPush> messages_ ABSL_GUARDED_BY(mutex_);  // shared with its transport
  std::map<int32_t, Block> blocks_ ABSL_GUARDED_BY(mutex_);   // given to the pair, by ordinal
  int64_t unsettled_ ABSL_GUARDED_BY(mutex_) = 0;  // bytes that are under way in the pair
  base::Instant moved_at_ ABSL_GUARDED_BY(mutex_){};
  bool fallen_ ABSL_GUARDED_BY(mutex_) = false;  // the pair gave something back
  std::optional<PushCommitment> commit_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> result_ ABSL_GUARDED_BY(mutex_);
  bool released_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace baton
