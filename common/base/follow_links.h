#pragma once

#include <filesystem>

namespace baton {

// The name that the links under `path` lead to, whether or not something is there. A name in /proc
// is the end of the way (IsInProc). With links that go in circles the result is one of them.
std::filesystem::path FollowLinks(std::filesystem::path path);

// Whether `path` is a name directly in a folder of /proc, as /proc/self/fd/1 and /dev/fd/1 are.
// What looks like a link there stands for an open file and cannot be replaced.
bool IsInProc(const std::filesystem::path& path);

}  // namespace baton
