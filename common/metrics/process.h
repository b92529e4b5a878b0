#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace baton {

class MetricsRegistry;

// What /proc/self says of this process. A figure is zero where it cannot be read.
struct ProcessFigures {
  double cpu_seconds = 0;
  double resident_bytes = 0;
  double virtual_bytes = 0;
  double open_fds = 0;
  double max_fds = 0;
  double start_unix_seconds = 0;
};

ProcessFigures ReadProcessFigures();

// Keeps the process_* series up to date at every scrape, and sets baton_build_info. Call it once.
void AddProcessMetrics(MetricsRegistry* registry);

}  // namespace baton
