#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "router/page/recent_figures.h"
#include "router/workers/worker_directory.h"

namespace baton {

// Requests on their way, by what they wait for; `queued` includes those that reserve blocks.
struct StageCounts {
  int64_t queued = 0, prefilling = 0, decoding = 0;
};

// What a router is and does at one moment.
struct RouterStatus {
  std::string model;
  std::string state;  // "ready", "draining", "unhealthy"
  double uptime_s = 0;
  std::vector<WorkerReport> workers;
  StageCounts stages;
  uint64_t answered = 0, failed = 0;
  std::vector<RecentFigures::Point> recent;
};

// At most so many workers are in the answer, those that get nothing first; `workers_total` has all.
inline constexpr size_t kWorkersShown = 100;

// The body of /api/status, as docs/page.md describes it.
std::string StatusJson(RouterStatus status);

}  // namespace baton
