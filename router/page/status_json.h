#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "router/page/eos_figures.h"
#include "router/page/recent_figures.h"
#include "router/page/request_report.h"
#include "router/workers/worker_directory.h"

namespace baton {

// How a router serves HTTP.
struct HttpFacts {
  int port = 0;
  bool tls = false;
  bool keys = false;  // callers need one
};

// What a router is and does at one moment.
struct RouterStatus {
  std::string model;
  std::string state;  // "ready", "draining", "unhealthy"
  double uptime_s = 0;
  std::optional<HttpFacts> http;  // empty: not at all
  std::vector<WorkerReport> workers;
  std::vector<RequestReport> requests;
  EosFigures::Figures eos;
  uint64_t answered = 0, failed = 0;
  std::vector<RecentFigures::Point> recent;
};

// At most so many workers are in the answer, those that get nothing first; `workers_total` has all.
inline constexpr size_t kWorkersShown = 100;

// And so many requests, the oldest.
inline constexpr size_t kRequestsShown = 20;

// The body of /api/status, as docs/page.md describes it.
std::string StatusJson(RouterStatus status);

}  // namespace baton
