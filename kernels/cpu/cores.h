#pragma once

#include <string_view>

namespace baton::kernels::cpu {

// Cores this process may use: its affinity, and the quota of its container if that is less.
int UsableCores();

// Whole cores of a cgroup's cpu.max ("200000 100000": two), at least one; 0 when there is no limit
// or the text is something else.
int CoresOfQuota(std::string_view cpu_max);

}  // namespace baton::kernels::cpu
