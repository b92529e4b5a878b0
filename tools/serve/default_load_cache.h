#pragma once

#include <string>

namespace baton {

// Where the workers of `baton serve` keep and share packed weights unless they are told: "baton" in
// `xdg_cache_home`, or in `home`/.cache, as the XDG Base Directory Specification has it. Makes the
// folder. Empty, with a line in the log, where both name no absolute path (they may be null), or
// the folder cannot be written.
std::string DefaultLoadCache(const char* xdg_cache_home, const char* home);

}  // namespace baton
