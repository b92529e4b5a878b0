#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace baton {

// Text from outside for a message: what is no printable ASCII is escaped as in C, so that a
// terminal only shows it. Of more than `bytes_max` bytes the rest is cut off, with "…" in its place
// and no character of UTF-8 in two.
std::string ShownText(std::string_view text, size_t bytes_max = 60);

// A whole message that has text from outside in it: control characters alone are escaped, so that
// it stays in its line and cannot steer a terminal.
std::string ShownLine(std::string_view text);

}  // namespace baton
