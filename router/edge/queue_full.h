#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace baton {

// RESOURCE_EXHAUSTED, QUEUE_FULL with both numbers and RetryInfo: there is no room now.
inline absl::Status QueueFull(size_t have, size_t limit, const std::string& message) {
  return MakeError(absl::StatusCode::kResourceExhausted,
                   {.reason = Reason::kQueueFull,
                    .values = {{"have", absl::StrCat(have)}, {"limit", absl::StrCat(limit)}},
                    .retry_after = std::chrono::milliseconds(1000)},
                   message);
}

}  // namespace baton
