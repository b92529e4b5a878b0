#pragma once

#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace baton::base {

// The logical CPUs that the calling thread may run on, ascending.
std::vector<int> CpusOfThisThread();

// How many threads should compute at a time on the logical CPUs `cpus`: one for each physical core,
// or fewer where the quota of this process's control group is less. The second hyperthread of a
// core adds little to products, which keep its vector units or the memory busy. At least one.
int UsableCores(std::span<const int> cpus);

// How many physical cores the logical CPUs `cpus` belong to. `devices` is /sys/devices/system/cpu,
// or a copy of it; a CPU whose siblings it does not tell counts as a core.
int PhysicalCores(const std::filesystem::path& devices, std::span<const int> cpus);

// How many whole cores a process may use at a time, by the least quota of its control group and
// those above. `groups` is /sys/fs/cgroup (version 2), `own` the text of /proc/self/cgroup. 0 when
// there is no limit.
int CoresOfGroup(const std::filesystem::path& groups, std::string_view own);

// How many whole cores the text of a cgroup's cpu.max grants ("200000 100000" is two), at least
// one. 0 when there is no limit or the text is something else.
int CoresOfQuota(std::string_view cpu_max);

}  // namespace baton::base
