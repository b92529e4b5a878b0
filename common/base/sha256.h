#pragma once

#include <string>
#include <string_view>

namespace baton {

// The SHA-256 of `bytes` as 64 hexadecimal digits: for what must not be made to agree on purpose.
std::string Sha256Hex(std::string_view bytes);

}  // namespace baton
