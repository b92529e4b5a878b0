#pragma once

#include <atomic>
#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace baton {

// How many bytes all requests in flight may hold together. A request takes its share when its
// message is there, before anything is made of it, and gives it back at its end. Thread-safe.
class ByteBudget final {
 public:
  class Share;

  explicit ByteBudget(size_t limit) : limit_(limit) {}
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  // RESOURCE_EXHAUSTED, QUEUE_FULL with both numbers and RetryInfo, when so much is not left;
  // INVALID_ARGUMENT, LIMIT_EXCEEDED, when so much never is. Every share is given back before the
  // budget ends.
  absl::StatusOr<Share> Take(size_t bytes);
  // Of what is there already and cannot be refused, so that others are while it lasts.
  Share Add(size_t bytes);
  // `share`, which may be empty, holds `bytes` from now on. False, and as before, where all would
  // then hold more than `most`.
  bool Grow(size_t bytes, size_t most, Share* share);
  size_t used() const { return used_.load(); }
  size_t limit() const { return limit_; }

 private:
  // Adds `bytes` to those in use, unless these would be more than `most` then; tells how many.
  bool Reserve(size_t bytes, size_t most, size_t* would);

  const size_t limit_;
  std::atomic<size_t> used_{0};
};

// What one request holds.
class ByteBudget::Share final {
 public:
  Share() = default;
  ~Share() { Resize(0); }
  Share(Share&& other) noexcept
      : budget_(std::exchange(other.budget_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Share& operator=(Share&& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  // The request holds `bytes` from now on. It is never refused, because it was taken already; a
  // message and the prompt that comes of it are of about one size.
  void Resize(size_t bytes);

 private:
  friend class ByteBudget;
  Share(ByteBudget* budget, size_t bytes) : budget_(budget), bytes_(bytes) {}

  ByteBudget* budget_ = nullptr;  // null: holds nothing of any
  size_t bytes_ = 0;
};

}  // namespace baton
