#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace baton::simulator {

// All of a file, which may be empty. NOT_FOUND, with the system's reason, when it cannot be read;
// `what` says what it would have been, as "the step costs ".
absl::StatusOr<std::string> ReadText(const std::string& path, const std::string& what);

}  // namespace baton::simulator
