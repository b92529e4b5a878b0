#include "common/metrics/process.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <vector>

#include "common/base/version.h"
#include "common/metrics/registry.h"

namespace baton {
namespace {

// The fields of /proc/self/stat from the third on (state); the second holds any characters.
std::vector<std::string> StatFields() {
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  std::istringstream rest(line.substr(std::min(line.size(), line.rfind(')') + 1)));
  std::vector<std::string> fields;
  for (std::string field; rest >> field;) fields.push_back(field);
  return fields;
}

double BootUnixSeconds() {
  std::ifstream file("/proc/stat");
  for (std::string key; file >> key;) {
    double value = 0;
    if (key == "btime" && file >> value) return value;
    file.ignore(1 << 20, '\n');
  }
  return 0;
}

double CountOpenFds() {
  DIR* directory = opendir("/proc/self/fd");
  if (directory == nullptr) return 0;
  double count = 0;
  while (const dirent* entry = readdir(directory)) count += entry->d_name[0] == '.' ? 0 : 1;
  closedir(directory);
  return count - 1;  // the directory itself
}

}  // namespace

ProcessFigures ReadProcessFigures() {
  // Places in proc(5)'s list of /proc/[pid]/stat, less the two fields cut off.
  constexpr size_t kUserTicks = 11, kSystemTicks = 12, kStartTicks = 19, kVirtual = 20,
                   kResidentPages = 21;
  ProcessFigures figures;
  const std::vector<std::string> fields = StatFields();
  if (fields.size() > kResidentPages) {
    const auto number = [&](size_t i) { return std::strtod(fields[i].c_str(), nullptr); };
    const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
    figures.cpu_seconds = (number(kUserTicks) + number(kSystemTicks)) / ticks;
    // The kernel reckons the time of its boot from a clock that may be set, but a process starts
    // once.
    static const double start = BootUnixSeconds() + number(kStartTicks) / ticks;
    figures.start_unix_seconds = start;
    figures.virtual_bytes = number(kVirtual);
    figures.resident_bytes = number(kResidentPages) * static_cast<double>(sysconf(_SC_PAGESIZE));
  }
  figures.open_fds = CountOpenFds();
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) figures.max_fds = static_cast<double>(limit.rlim_cur);
  return figures;
}

void AddProcessMetrics(MetricsRegistry* registry) {
  registry->gauge(Metric::kBuildInfo, {std::string(base::Version()), std::string(base::Compiler())})
      .Set(1);
  registry->OnScrape([registry] {
    const ProcessFigures figures = ReadProcessFigures();
    MetricsRegistry::AdvanceTo(&registry->counter(Metric::kProcessCpuSeconds), figures.cpu_seconds);
    registry->gauge(Metric::kProcessResidentMemory).Set(figures.resident_bytes);
    registry->gauge(Metric::kProcessVirtualMemory).Set(figures.virtual_bytes);
    registry->gauge(Metric::kProcessOpenFds).Set(figures.open_fds);
    registry->gauge(Metric::kProcessMaxFds).Set(figures.max_fds);
    registry->gauge(Metric::kProcessStartTime).Set(figures.start_unix_seconds);
  });
}

}  // namespace baton
