#pragma once

#include <string_view>

namespace baton::kernels::cpu {

// How many cores this process may use: those of its affinity, or the quota of its container where
// that is less.
int UsableCores();

// How many whole cores the text of a cgroup's cpu.max grants ("200000 100000" is two), at least
// one. 0 when there is no limit or the text is something else.
int CoresOfQuota(std::string_view cpu_max);

}  // namespace baton::kernels::cpu
