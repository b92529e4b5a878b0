#include "router/edge/byte_budget.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace baton {

bool ByteBudget::Reserve(size_t bytes, size_t most, size_t* would) {
  size_t used = used_.load();
  do {
    *would = used + bytes;
    if (*would > most) return false;
  } while (!used_.compare_exchange_weak(used, *would));
  return true;
}

absl::StatusOr<ByteBudget::Share> ByteBudget::Take(size_t bytes) {
  if (bytes > limit_) {
    return MakeError(absl::StatusCode::kInvalidArgument,
                     {.reason = Reason::kLimitExceeded,
                      .values = {{"have", absl::StrCat(bytes)}, {"limit", absl::StrCat(limit_)}}},
                     absl::StrCat("the request has ", bytes, " bytes, and --max-inflight-bytes is ",
                                  limit_, " for all together; send a smaller one"));
  }
  size_t would = 0;
  if (Reserve(bytes, limit_, &would)) return Share(this, bytes);
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      {.reason = Reason::kQueueFull,
       .values = {{"have", absl::StrCat(would)}, {"limit", absl::StrCat(limit_)}},
       .retry_after = std::chrono::milliseconds(1000)},
      absl::StrCat("requests in flight would hold ", would, " bytes and --max-inflight-bytes is ",
                   limit_, "; try again later"));
}

bool ByteBudget::Grow(size_t bytes, size_t most, Share* share) {
  size_t would = 0;
  if (!Reserve(bytes - share->bytes_, most, &would)) return false;
  share->budget_ = this;
  share->bytes_ = bytes;
  return true;
}

ByteBudget::Share ByteBudget::Add(size_t bytes) {
  used_ += bytes;
  return Share(this, bytes);
}

void ByteBudget::Share::Resize(size_t bytes) {
  if (budget_ == nullptr) return;
  // Unsigned numbers wrap, so this adds a negative difference just as well.
  budget_->used_ += bytes - bytes_;
  bytes_ = bytes;
}

}  // namespace baton
