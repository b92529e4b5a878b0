#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"

namespace baton {

// How many bytes all requests in flight may hold together, and those of one client (see Caller). A
// request takes its share when its message is there, before anything is made of it, and gives it
// back at its end.
//
// Requests in flight cannot give way to those that come, so a client that has filled the budget
// would shut out all others until they end. It therefore holds at most three times what is left:
// alone three quarters, beside another that does the same three sevenths, and something is always
// left for the next. Thread-safe.
class ByteBudget final {
 public:
  class Share;

  explicit ByteBudget(size_t limit) : limit_(limit) {}
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  // What one client may hold of `limit` when nobody else holds anything.
  static constexpr size_t MostOfOne(size_t limit) { return limit / 4 * kOverLeft; }

  // The share of a request of `client` that holds `bytes`, or why it cannot have it, as Resize
  // says. Every share is given back before the budget ends.
  absl::StatusOr<Share> Take(const std::string& client, size_t bytes);
  // Of what is there already and cannot be refused, so that others are while it lasts.
  Share Add(const std::string& client, size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  // `share`, which may be empty or is `client`'s, holds `bytes` of answers from now on. They have
  // three quarters of what the client may hold, so that its own requests come in beside them.
  // QUEUE_FULL with RetryInfo, and as before, where so much is not left.
  absl::Status Grow(const std::string& client, size_t bytes, Share* share)
      ABSL_LOCKS_EXCLUDED(mutex_);
  size_t used() const ABSL_LOCKS_EXCLUDED(mutex_);
  size_t limit() const { return limit_; }

 private:
  // So many times what is left may a client hold.
  static constexpr size_t kOverLeft = 3;

  // What a client may hold, all its requests together, beside what others hold: the most that is no
  // more than kOverLeft times what it leaves.
  size_t MostOf(const std::string& client) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  size_t HeldBy(const std::string& client) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The client holds `bytes` in place of `before` from now on.
  void Change(const std::string& client, size_t before, size_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t limit_;
  mutable base::Mutex mutex_;
  size_t used_ ABSL_GUARDED_BY(mutex_) = 0;
  // Only of those that hold something.
  absl::flat_hash_map<std::string, size_t> clients_ ABSL_GUARDED_BY(mutex_);
};

// What one request holds.
class ByteBudget::Share final {
 public:
  Share() = default;
  ~Share() { Resize(0).IgnoreError(); }
  Share(Share&& other) noexcept
      : budget_(std::exchange(other.budget_, nullptr)),
        client_(std::move(other.client_)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  Share& operator=(Share&& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(client_, other.client_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  // The request holds `bytes` from now on. Less is never refused. More is, and all stays as it was:
  // RESOURCE_EXHAUSTED, QUEUE_FULL with both numbers and RetryInfo, when so much is not left for
  // the client; INVALID_ARGUMENT, LIMIT_EXCEEDED, when so much never is.
  absl::Status Resize(size_t bytes);

 private:
  friend class ByteBudget;
  Share(ByteBudget* budget, const std::string& client, size_t bytes)
      : budget_(budget), client_(client), bytes_(bytes) {}

  ByteBudget* budget_ = nullptr;  // null: holds nothing of any
  std::string client_;
  size_t bytes_ = 0;
};

}  // namespace baton
