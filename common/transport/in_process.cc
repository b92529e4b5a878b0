#include "common/transport/in_process.h"

#include <utility>

#include "common/base/mutex.h"
#include "common/transport/outbox.h"

namespace baton {
namespace {

// One push: the sender's handle, the receiver's reply, and the thread between them. The thread
// holds a reference, so the push lives until its observer was told.
class InProcessPush final : public KvPush, public KvPushReply {
 public:
  InProcessPush(PushHello hello, std::shared_ptr<KvPushObserver> observer, const base::Clock* clock)
      : hello_(std::move(hello)), observer_(std::move(observer)), clock_(clock) {}

  void Send(std::vector<KvSource> blocks) override {
    base::MutexLock lock(&mutex_);
    outbox_.Add(blocks);
    changed_.NotifyAll();
  }
  void Progress(int32_t computed_tokens) override {
    base::MutexLock lock(&mutex_);
    outbox_.Note(computed_tokens);
    changed_.NotifyAll();
  }
  void Commit(PushCommitment commitment) override {
    base::MutexLock lock(&mutex_);
    outbox_.Commit(std::move(commitment));
    changed_.NotifyAll();
  }
  void Cancel() override { Answer(absl::CancelledError("the sender gave the push up")); }
  void Answer(absl::StatusOr<int32_t> blocks) override {
    base::MutexLock lock(&mutex_);
    if (answer_) return;
    answer_ = blocks.status();
    changed_.NotifyAll();
  }
  base::Instant waiting_since() const override {
    base::MutexLock lock(&mutex_);
    return waiting_since_;
  }

  void Run(KvInboxes* inboxes, const std::shared_ptr<InProcessPush>& self) {
    auto inbox = inboxes->Open(hello_, self);
    if (!inbox.ok()) Answer(inbox.status());
    while (std::optional<OutboxItem> item = NextItem()) {
      if (!inbox.ok()) break;
      absl::Status status = Deliver(inbox->get(), *std::move(item));
      if (!status.ok()) Answer(std::move(status));
    }
    if (inbox.ok()) (*inbox)->Closed();
    absl::Status status;
    {
      base::MutexLock lock(&mutex_);
      outbox_.Clear();
      status = *answer_;
    }
    observer_->OnPushDone(std::move(status));
  }

 private:
  static absl::Status Deliver(KvInbox* inbox, OutboxItem item) {
    if (auto* piece = std::get_if<KvPiece>(&item)) return inbox->Write(*piece);
    if (auto* note = std::get_if<PushProgressNote>(&item)) inbox->Progress(note->computed_tokens);
    if (auto* commit = std::get_if<PushCommitment>(&item)) inbox->Commit(std::move(*commit));
    return absl::OkStatus();
  }

  // Empty once there is an answer.
  std::optional<OutboxItem> NextItem() {
    base::MutexLock lock(&mutex_);
    if (!committed_) waiting_since_ = base::kNever;
    while (!answer_) {
      if (std::optional<UnreadItem> item = outbox_.Next()) {
        committed_ = std::holds_alternative<PushCommitment>(*item);
        waiting_since_ = clock_->Now();
        // Memory of the host is read without a copy, and without a failure.
        return *ReadItem(*std::move(item), HostBlocks());
      }
      changed_.Wait(&mutex_);
    }
    waiting_since_ = base::kNever;
    return std::nullopt;
  }

  const PushHello hello_;
  const std::shared_ptr<KvPushObserver> observer_;  // shared with its owner until told
  const base::Clock* const clock_;
  mutable base::Mutex mutex_;
  base::CondVar changed_;
  Outbox outbox_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> answer_ ABSL_GUARDED_BY(mutex_);
  base::Instant waiting_since_ ABSL_GUARDED_BY(mutex_) = base::kNever;
  bool committed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

std::shared_ptr<KvPush> InProcessTransport::Open(const std::string&, const PushHello& hello,
                                                 std::shared_ptr<KvPushObserver> observer) {
  auto push = std::make_shared<InProcessPush>(hello, std::move(observer), clock_);
  base::MutexLock lock(&mutex_);
  threads_.emplace_back([inboxes = inboxes_, push] { push->Run(inboxes, push); });
  return push;
}

InProcessTransport::~InProcessTransport() {
  base::MutexLock lock(&mutex_);
  for (std::thread& thread : threads_) thread.join();
}

}  // namespace baton
