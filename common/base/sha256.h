#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace baton {

// The SHA-256 of `bytes` as 64 hexadecimal digits: for what must not be made to agree on purpose.
std::string Sha256Hex(std::string_view bytes);
// Whether two such texts are equal; takes as long for any two of a length.
bool IsSameDigest(std::string_view one, std::string_view other);
// The SHA-256 of a file's content, of which it holds one piece in memory.
absl::StatusOr<std::string> Sha256OfFile(const std::string& path);

}  // namespace baton
