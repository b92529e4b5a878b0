#include "kernels/cpu/cores.h"

#include <omp.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <string>

namespace baton::kernels::cpu {

int CoresOfQuota(std::string_view cpu_max) {
  int64_t quota = 0;
  int64_t period = 0;
  const char* end = cpu_max.data() + cpu_max.size();
  const auto first = std::from_chars(cpu_max.data(), end, quota);
  if (first.ec != std::errc() || first.ptr == end) return 0;
  const auto second = std::from_chars(first.ptr + 1, end, period);
  if (second.ec != std::errc() || quota <= 0 || period <= 0) return 0;
  return static_cast<int>(std::clamp<int64_t>(quota / period, 1, 1 << 16));
}

int UsableCores() {
  const int cores = std::max(1, omp_get_num_procs());
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string line;
  if (!std::getline(file, line)) return cores;
  const int quota = CoresOfQuota(line);
  return quota > 0 ? std::min(cores, quota) : cores;
}

}  // namespace baton::kernels::cpu
