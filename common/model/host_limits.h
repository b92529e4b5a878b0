#pragma once

#include <cstdint>
#include <string>

namespace baton {

// How many bytes this process can still take: the machine's MemAvailable, or what the limit of its
// cgroup leaves where that is less. INT64_MAX where neither can be read. Only tests give a `root`.
int64_t AvailableMemoryBytes(const std::string& root = "/");

}  // namespace baton
