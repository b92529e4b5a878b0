#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace baton {

// The NUMA node that all of the logical CPUs `cpus` belong to, on a machine with several of them.
// Empty on a machine with one, and where the CPUs are of several or of none. `nodes` is
// /sys/devices/system/node, or a copy of it.
std::optional<int> NumaNodeOf(std::span<const int> cpus,
                              const std::filesystem::path& nodes = "/sys/devices/system/node");

// The CPUs that a list of the kernel's names, as "0-3,8"; what is no such list has none.
std::vector<int> ParseCpuList(const std::string& list);

}  // namespace baton
