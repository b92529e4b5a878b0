#include "common/model/host_limits.h"

#include <algorithm>
#include <fstream>
#include <optional>

namespace baton {
namespace {

std::optional<int64_t> ReadNumber(const std::string& path) {
  std::ifstream file(path);
  int64_t value = 0;
  if (!(file >> value) || value < 0) return std::nullopt;  // absent, or "max"
  return value;
}

std::optional<int64_t> MemAvailable(const std::string& path) {
  std::ifstream file(path);
  std::string key;
  int64_t kibibytes = 0;
  std::string unit;
  while (file >> key >> kibibytes) {
    std::getline(file, unit);
    if (key == "MemAvailable:") return kibibytes * 1024;
  }
  return std::nullopt;
}

// What the page cache of the group holds counts as used but is given back on demand.
int64_t Reclaimable(const std::string& path) {
  std::ifstream file(path);
  std::string key;
  int64_t value = 0;
  int64_t sum = 0;
  while (file >> key >> value) {
    if (key == "inactive_file" || key == "active_file") sum += value;
  }
  return sum;
}

}  // namespace

int64_t AvailableMemoryBytes(const std::string& root) {
  int64_t available = MemAvailable(root + "proc/meminfo").value_or(INT64_MAX);
  const std::string group = root + "sys/fs/cgroup/";
  const auto limit = ReadNumber(group + "memory.max");
  const auto used = ReadNumber(group + "memory.current");
  if (limit.has_value() && used.has_value()) {
    const int64_t left = *limit - *used + Reclaimable(group + "memory.stat");
    available = std::min(available, std::max<int64_t>(0, left));
  }
  return available;
}

}  // namespace baton
