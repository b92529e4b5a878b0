#include "common/config/usage_errors.h"

#include "absl/strings/str_cat.h"

namespace baton {

void UsageErrors::Add(const absl::Status& status) {
  if (status.ok()) return;
  if (count_++ >= kMaxTold) return;
  absl::StrAppend(&lines_, lines_.empty() ? "" : "\n", status.message());
}

absl::Status UsageErrors::status() const {
  if (empty()) return absl::OkStatus();
  if (count_ <= kMaxTold) return absl::InvalidArgumentError(lines_);
  return absl::InvalidArgumentError(
      absl::StrCat(lines_, "\n... and ", count_ - kMaxTold, " more errors"));
}

}  // namespace baton
