#include "router/edge/byte_budget.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace baton {

absl::StatusOr<ByteBudget::Share> ByteBudget::Take(size_t bytes) {
  if (bytes > limit_) {
    return MakeError(absl::StatusCode::kInvalidArgument,
                     {.reason = Reason::kLimitExceeded,
                      .values = {{"have", absl::StrCat(bytes)}, {"limit", absl::StrCat(limit_)}}},
                     absl::StrCat("the request has ", bytes, " bytes, and --max-inflight-bytes is ",
                                  limit_, " for all together; send a smaller one"));
  }
  size_t used = used_.load();
  do {
    if (used + bytes <= limit_) continue;
    return MakeError(
        absl::StatusCode::kResourceExhausted,
        {.reason = Reason::kQueueFull,
         .values = {{"have", absl::StrCat(used + bytes)}, {"limit", absl::StrCat(limit_)}},
         .retry_after = std::chrono::milliseconds(1000)},
        absl::StrCat("requests in flight would hold ", used + bytes,
                     " bytes and --max-inflight-bytes is ", limit_, "; try again later"));
  } while (!used_.compare_exchange_weak(used, used + bytes));
  return Share(this, bytes);
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
