#pragma once

#include <cstdint>
#include <string>

namespace baton {

// Bytes that this process can still take: the machine's MemAvailable, or what its cgroup leaves
// where that is less. INT64_MAX where neither can be read. `root` is "/" outside tests.
int64_t AvailableMemoryBytes(const std::string& root = "/");

}  // namespace baton
