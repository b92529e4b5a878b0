#pragma once

#include <string>
#include <string_view>

namespace baton::bench {

// Where the content of `path` is written before it is renamed to it: PATH + suffix. A device or a
// pipe is written in place, since a rename would put a file where it stood; then this is `path`.
std::string WrittenBefore(const std::string& path, std::string_view suffix);

}  // namespace baton::bench
