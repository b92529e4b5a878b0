#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace baton::bench {

// Raises this process's limit of open files as far as it may, and says RESOURCE_EXHAUSTED, with
// what to type, when `streams` connections at once would not fit.
absl::Status AllowOpenFiles(int64_t streams);

}  // namespace baton::bench
