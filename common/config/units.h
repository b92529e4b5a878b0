#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/base/clock.h"

namespace baton {

// Bytes: "1048576", "512MiB", "0.5GiB".
absl::StatusOr<int64_t> ParseSize(std::string_view text);
std::string FormatSize(int64_t bytes);

// "30s", "500ms", "2m"; a bare number counts in `unit`.
absl::StatusOr<base::Duration> ParseDuration(std::string_view text, std::chrono::milliseconds unit);
std::string FormatDuration(base::Duration duration);

}  // namespace baton
