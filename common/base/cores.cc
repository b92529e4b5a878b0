#include "common/base/cores.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

namespace baton::base {
namespace {

namespace fs = std::filesystem;

constexpr int kMostCpus = 1 << 16;

// The first line of a file, or "".
std::string LineOf(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

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

int PhysicalCores(const fs::path& devices, std::span<const int> cpus) {
  std::set<std::string> cores;  // as lists of their CPUs
  for (const int cpu : cpus) {
    const std::string name = "cpu" + std::to_string(cpu);
    const fs::path topology = devices / name / "topology";
    std::string siblings = LineOf(topology / "core_cpus_list");
    if (siblings.empty()) siblings = LineOf(topology / "thread_siblings_list");  // older kernels
    cores.insert(siblings.empty() ? name : siblings);
  }
  return static_cast<int>(cores.size());
}

int CoresOfGroup(const fs::path& groups, std::string_view own) {
  int least = CoresOfQuota(LineOf(groups / "cpu.max"));
  const size_t entry = own.find("0::/");
  if (entry == std::string_view::npos) return least;
  const std::string_view path = own.substr(entry + 4);
  fs::path group = groups;
  for (const fs::path& part : fs::path(path.substr(0, path.find('\n')))) {
    if (part == "..") break;  // a group outside of what is mounted here
    group /= part;
    const int quota = CoresOfQuota(LineOf(group / "cpu.max"));
    if (quota > 0) least = least > 0 ? std::min(least, quota) : quota;
  }
  return least;
}

std::vector<int> CpusOfThisThread() {
  std::vector<int> cpus;
  cpu_set_t* const set = CPU_ALLOC(kMostCpus);
  if (set == nullptr) return cpus;
  const size_t bytes = CPU_ALLOC_SIZE(kMostCpus);
  CPU_ZERO_S(bytes, set);
  if (sched_getaffinity(0, bytes, set) == 0) {
    for (int cpu = 0; cpu < kMostCpus; ++cpu) {
      if (CPU_ISSET_S(cpu, bytes, set)) cpus.push_back(cpu);
    }
  }
  CPU_FREE(set);
  return cpus;
}

int UsableCores(std::span<const int> cpus) {
  const int cores = std::max(1, PhysicalCores("/sys/devices/system/cpu", cpus));
  std::ifstream file("/proc/self/cgroup");
  const std::string own{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const int quota = CoresOfGroup("/sys/fs/cgroup", own);
  return quota > 0 ? std::min(cores, quota) : cores;
}

}  // namespace baton::base
