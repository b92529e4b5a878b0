#include "router/page/status_json.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "nlohmann/json.hpp"

namespace baton {
namespace {

using PageJson = nlohmann::ordered_json;

// Three digits behind the point are enough to draw.
double Rounded(double value) { return std::round(value * 1000) / 1000; }

PageJson WorkerJson(const WorkerReport& worker) {
  return {{"address", worker.address},
          {"role", WorkerKindName(worker.kind)},
          {"state", worker.healthy         ? "serving"
                    : worker.load.draining ? "draining"
                                           : "unreachable"},
          {"running", worker.load.running},
          {"waiting", worker.load.waiting},
          {"blocks_total", worker.load.blocks_total},
          {"blocks_in_use", worker.load.blocks_in_use},
          {"foreseen", worker.load.foreseen},
          {"expected_tokens", Rounded(worker.load.expected_tokens)}};
}

PageJson RecentJson(const std::vector<RecentFigures::Point>& points) {
  PageJson recent = {{"interval_s", base::Seconds(RecentFigures::kEvery)}};
  const auto series = [&](const char* name, auto value) {
    PageJson values = PageJson::array();
    for (const RecentFigures::Point& point : points) values.push_back(Rounded(value(point)));
    recent[name] = std::move(values);
  };
  series("requests_per_s", [](const auto& point) { return point.requests; });
  series("prompt_tokens_per_s", [](const auto& point) { return point.prompt_tokens; });
  series("output_tokens_per_s", [](const auto& point) { return point.output_tokens; });
  series("ttft_ms_p50", [](const auto& point) { return point.ttft_ms[0]; });
  series("ttft_ms_p95", [](const auto& point) { return point.ttft_ms[1]; });
  series("ttft_ms_p99", [](const auto& point) { return point.ttft_ms[2]; });
  series("gap_ms_p50", [](const auto& point) { return point.gap_ms[0]; });
  series("gap_ms_p95", [](const auto& point) { return point.gap_ms[1]; });
  series("gap_ms_p99", [](const auto& point) { return point.gap_ms[2]; });
  return recent;
}

}  // namespace

std::string StatusJson(RouterStatus status) {
  double expected = 0;
  int64_t foreseen = 0;
  for (const WorkerReport& worker : status.workers) {
    expected += worker.load.expected_tokens;
    foreseen += worker.load.foreseen;
  }
  std::stable_partition(status.workers.begin(), status.workers.end(),
                        [](const WorkerReport& worker) { return !worker.healthy; });
  PageJson workers = PageJson::array();
  for (const WorkerReport& worker : status.workers) {
    if (workers.size() == kWorkersShown) break;
    workers.push_back(WorkerJson(worker));
  }
  const PageJson json = {{"model", status.model},
                         {"state", status.state},
                         {"uptime_s", Rounded(status.uptime_s)},
                         {"workers_total", status.workers.size()},
                         {"workers", workers},
                         {"requests",
                          {{"queued", status.stages.queued},
                           {"prefilling", status.stages.prefilling},
                           {"decoding", status.stages.decoding},
                           {"answered", status.answered},
                           {"failed", status.failed}}},
                         {"foreseen", {{"sequences", foreseen}, {"tokens", Rounded(expected)}}},
                         {"recent", RecentJson(status.recent)}};
  return json.dump(-1, ' ', false, PageJson::error_handler_t::replace);
}

}  // namespace baton
