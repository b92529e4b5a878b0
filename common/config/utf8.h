#pragma once

#include <string_view>

namespace baton {

// Whether `text` is UTF-8 as RFC 3629 has it: no character in more bytes than it needs, no half of
// a surrogate pair, none above U+10FFFF.
bool IsUtf8(std::string_view text);

}  // namespace baton
