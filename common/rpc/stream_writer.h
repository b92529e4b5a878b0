#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "grpcpp/support/status.h"

namespace baton {

// The write side of a callback server reactor: one write outstanding, the rest coalesced and
// bounded, and Finish called exactly once whatever happens beside it. Thread-safe.
//
// A slow reader never slows the caller: what it does not take accumulates here, and past
// `max_pending_bytes` the owner is told (`Send` returns false) and ends the stream.
template <typename Message>
class StreamWriter {
 public:
  // The three operations of the reactor. `write` and `finish` only start something.
  struct Port {
    std::function<void(const Message*)> write;
    std::function<void(grpc::Status)> finish;
    // Breaks the call, so that an outstanding write ends.
    std::function<void()> cancel;
    // Hears how many hints were dropped for want of room. It must not call back; may be null.
    std::function<void(size_t count)> dropped;
  };
  // Appends `next` to `last` where two messages can travel as one; false leaves both untouched.
  using Merge = bool (*)(Message* last, Message* next);

  StreamWriter(Port port, Merge merge, size_t max_pending_bytes)
      : port_(std::move(port)), merge_(merge), max_pending_bytes_(max_pending_bytes) {}

  // False when `message` would exceed the bound; it is then dropped. True and without effect once
  // the stream is ending.
  bool Send(Message message) {
    base::MutexLock lock(&mutex_);
    if (ending_) return true;
    const size_t bytes = message.ByteSizeLong();
    if (pending_bytes_ + bytes > max_pending_bytes_) DropHints();
    if (pending_bytes_ + bytes > max_pending_bytes_ && !pending_.empty()) return false;
    pending_bytes_ += bytes;
    if (pending_.empty() || merge_ == nullptr || !merge_(&pending_.back().message, &message)) {
      pending_.push_back({.message = std::move(message), .is_hint = false});
    }
    Advance();
    return true;
  }

  // Sends messages that the owner has held until now, so that the bound would free nothing.
  void SendAll(std::vector<Message> messages) {
    base::MutexLock lock(&mutex_);
    if (ending_) return;
    for (Message& message : messages) {
      pending_bytes_ += message.ByteSizeLong();
      pending_.push_back({.message = std::move(message), .is_hint = false});
    }
    Advance();
  }

  // Sends what may be lost: it is dropped while more than a quarter of the bound is pending, and
  // later if a message needs its room.
  void SendHint(Message hint) {
    base::MutexLock lock(&mutex_);
    if (ending_) return;
    const size_t bytes = hint.ByteSizeLong();
    if (pending_bytes_ + bytes > max_pending_bytes_ / 4) return Dropped(1);
    pending_bytes_ += bytes;
    pending_.push_back({.message = std::move(hint), .is_hint = true});
    Advance();
  }

  // Ends the stream after everything sent so far. The first end wins.
  void Finish(grpc::Status status) {
    base::MutexLock lock(&mutex_);
    if (ending_) return;
    ending_ = true;
    status_ = std::move(status);
    Advance();
  }

  // Ends the stream as soon as the outstanding write is over; what is pending is dropped.
  void Abort(grpc::Status status) {
    base::MutexLock lock(&mutex_);
    if (ending_) return;
    ending_ = true;
    status_ = std::move(status);
    DropPending();
    Advance();
  }

  // Aborts, and also breaks the outstanding write, for a reader that takes nothing.
  void Break(grpc::Status status) {
    Abort(std::move(status));
    base::MutexLock lock(&mutex_);
    if (writing_) port_.cancel();
  }

  // The reactor calls this from its OnWriteDone.
  void OnWriteDone(bool ok) {
    base::MutexLock lock(&mutex_);
    writing_ = false;
    if (!ok) {
      broken_ = true;
      DropPending();
    }
    Advance();
  }

  // The reactor calls this from its OnCancel: nothing more can be delivered. The owner still has to
  // end the stream.
  void OnCancel() {
    base::MutexLock lock(&mutex_);
    broken_ = true;
    DropPending();
  }

 private:
  struct Pending {
    Message message;
    bool is_hint = false;
  };

  void DropHints() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Dropped(
        std::erase_if(pending_, [this](const Pending& each) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
          if (each.is_hint) Took(each.message);
          return each.is_hint;
        }));
    if (pending_.empty()) pending_bytes_ = 0;
  }

  void Dropped(size_t hints) {
    if (hints > 0 && port_.dropped) port_.dropped(hints);
  }

  // A message is no longer pending. Merged ones may be smaller than the sum of their parts.
  void Took(const Message& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    pending_bytes_ -= std::min(pending_bytes_, message.ByteSizeLong());
  }

  void DropPending() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    pending_.clear();
    pending_bytes_ = 0;
  }

  // gRPC never calls back from inside StartWrite or Finish, so the lock may be held.
  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (writing_ || finished_) return;
    if (broken_) DropPending();
    if (!pending_.empty()) {
      current_ = std::move(pending_.front().message);
      pending_.pop_front();
      Took(current_);
      if (pending_.empty()) pending_bytes_ = 0;
      writing_ = true;
      port_.write(&current_);
    } else if (ending_) {
      finished_ = true;
      port_.finish(status_);
    }
  }

  const Port port_;
  const Merge merge_;
  const size_t max_pending_bytes_;
  base::Mutex mutex_;
  std::deque<Pending> pending_ ABSL_GUARDED_BY(mutex_);
  size_t pending_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  Message current_ ABSL_GUARDED_BY(mutex_);  // lives until its write is done
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton
