#include "common/model/packed/numa_node.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace baton {

std::vector<int> ParseCpuList(const std::string& list) {
  constexpr int kMostCpus = 1 << 16;
  std::vector<int> cpus;
  const std::vector<std::string> ranges = absl::StrSplit(list, ',', absl::SkipEmpty());
  for (const std::string& range : ranges) {
    const std::vector<std::string> ends = absl::StrSplit(range, '-');
    int first = 0;
    int last = 0;
    if (ends.size() > 2 || !absl::SimpleAtoi(ends.front(), &first) ||
        !absl::SimpleAtoi(ends.back(), &last) || first < 0 || last >= kMostCpus) {
      return {};
    }
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

std::optional<int> NumaNodeOf(std::span<const int> cpus, const std::filesystem::path& nodes) {
  int with_cpus = 0;
  std::optional<int> holder;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(nodes, error)) {
    const std::string name = entry.path().filename().string();
    int node = 0;
    if (!name.starts_with("node") || !absl::SimpleAtoi(name.substr(4), &node)) continue;
    std::ifstream file(entry.path() / "cpulist");
    std::string list;
    std::getline(file, list);
    const std::vector<int> of_node = ParseCpuList(list);
    if (of_node.empty()) continue;  // memory without processors
    ++with_cpus;
    const bool holds = !cpus.empty() && std::ranges::all_of(cpus, [&](int cpu) {
      return std::ranges::find(of_node, cpu) != of_node.end();
    });
    if (holds) holder = node;
  }
  return with_cpus > 1 ? holder : std::nullopt;
}

}  // namespace baton
