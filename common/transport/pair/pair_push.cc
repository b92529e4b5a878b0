#include "common/transport/pair/pair_push.h"

#include <utility>

#include "common/transport/pair/pair_transport.h"

namespace baton {

void PairPush::SetMessages(std::shared_ptr<KvPush> messages) {
  base::MutexLock lock(&mutex_);
  if (!result_) messages_ = std::move(messages);
}

void PairPush::Send(std::vector<KvSource> blocks) {
  std::vector<SourcePart> parts;
  {
    base::MutexLock lock(&mutex_);
    if (result_ || messages_ == nullptr) return;
    if (fallen_) return messages_->Send(std::move(blocks));
    if (unsettled_ == 0) moved_at_ = clock_->Now();
    for (const KvSource& block : blocks) {
      const auto size = static_cast<int64_t>(block.size());
      blocks_[block.ordinal] = {.bytes = block.parts, .size = size};
      unsettled_ += size;
      parts.push_back({block.ordinal, 0, block.parts});
    }
  }
  transport_->Add(id_, std::move(parts));
}

void PairPush::Progress(int32_t computed_tokens) {
  base::MutexLock lock(&mutex_);
  if (messages_ != nullptr) messages_->Progress(computed_tokens);
}

void PairPush::Commit(PushCommitment commitment) {
  base::MutexLock lock(&mutex_);
  if (result_) return;
  commit_ = std::move(commitment);
  FlushIfSettled();
}

void PairPush::Cancel() {
  {
    base::MutexLock lock(&mutex_);
    if (messages_ != nullptr) messages_->Cancel();
  }
  transport_->End(id_);
}

base::Instant PairPush::waiting_since() const {
  base::MutexLock lock(&mutex_);
  if (result_ || messages_ == nullptr) return base::kNever;
  return unsettled_ > 0 ? moved_at_ : messages_->waiting_since();
}

void PairPush::OnParts(const std::vector<ParcelPart>& parts, bool done) {
  base::MutexLock lock(&mutex_);
  for (const ParcelPart& part : parts) {
    unsettled_ -= part.size;
    if (done) blocks_[part.ordinal].done += part.size;
  }
  if (!done) fallen_ = true;
  moved_at_ = clock_->Now();
  FlushIfSettled();
}

void PairPush::FlushIfSettled() {
  if (unsettled_ > 0 || result_ || messages_ == nullptr) return;
  std::vector<KvSource> again;
  for (const auto& [ordinal, block] : blocks_) {
    if (block.done < block.size) again.push_back({ordinal, block.bytes});
  }
  blocks_.clear();
  if (!again.empty()) messages_->Send(std::move(again));
  if (commit_) messages_->Commit(*std::exchange(commit_, std::nullopt));
}

void PairPush::OnPushDone(absl::Status status) {
  // Before there is a result: another thread that sees it and the release may tell our owner, who
  // may end the transport at once.
  transport_->End(id_);
  {
    base::MutexLock lock(&mutex_);
    result_ = std::move(status);
    messages_.reset();
  }
  TellIfOver();
}

void PairPush::OnReleased() {
  {
    base::MutexLock lock(&mutex_);
    released_ = true;
  }
  TellIfOver();
}

void PairPush::TellIfOver() {
  std::shared_ptr<KvPushObserver> observer;
  absl::Status status;
  {
    base::MutexLock lock(&mutex_);
    if (!released_ || !result_) return;
    observer = std::exchange(observer_, nullptr);
    status = *result_;
  }
  if (observer == nullptr) return;
  observer->OnPushDone(std::move(status));
  transport_->Forget(id_);
}

}  // namespace baton
