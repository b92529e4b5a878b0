#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace baton {

// The SHA-256 of `bytes` as 64 hexadecimal digits: for what must not be made to agree on purpose.
std::string Sha256Hex(std::string_view bytes);
// The same of a file's content, of which it holds one piece in memory.
absl::StatusOr<std::string> Sha256OfFile(const std::string& path);

}  // namespace baton
