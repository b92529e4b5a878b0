#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "nlohmann/json.hpp"

namespace baton::bench {

// What one admin port said during a run, under short names:
//   gauges    kv_usage (0..1), running, waiting, inflight, queued, resident_bytes
//   counters  preemptions, attempts.OUTCOME, errors.REASON, prompt_tokens, generation_tokens,
//             first_tokens, prompt_tokens.SOURCE, prefix_hits, prefix_queries, kv_transfer_bytes,
//             cpu_s, step_s.PHASE, step_count.PHASE, requests_ended.REASON
// What the target does not have is absent. The names of vLLM and of llama.cpp's server are read,
// too, where they mean the same.
struct TargetMetrics {
  using Series = std::vector<std::pair<base::Instant, double>>;

  std::string address;
  std::string role;  // router, prefill, decode; "" for others
  std::map<std::string, Series> gauges;
  std::map<std::string, double> peaks;     // of the gauges
  std::map<std::string, double> start;     // counters at the first answer
  std::map<std::string, double> end;       // and at the last
  std::map<std::string, double> increase;  // in between, over restarts of the process
  int64_t scrapes = 0;
  int64_t failed_scrapes = 0;
  bool answering = false;  // at the last scrape
  std::string last_error;  // of the latest failed scrape
};

// What all admin ports of a run said.
struct ServerMetrics {
  std::vector<TargetMetrics> targets;
  double interval_s = 0;  // from one reading to the next: gauges may have been higher in between

  // The highest KV use of a decode worker, else of any target; empty when none says.
  std::optional<double> PeakKvUsage() const;
  // The increase of a counter over all targets; empty when no target has it.
  std::optional<double> Increase(const std::string& counter) const;
};

// Times count from `started`. Series are thinned to at most 2000 points, peaks stay exact.
nlohmann::ordered_json MetricsAsJson(const ServerMetrics& metrics, base::Instant started);

struct ScraperOptions {
  std::vector<std::string> targets;  // HOST:PORT, or http://HOST:PORT
  base::Duration interval = std::chrono::seconds(1);
  base::Duration timeout = std::chrono::seconds(2);  // of one scrape
};

// Reads /metrics of every target at a steady interval, each on a thread of its own. A target that
// does not answer, or answers nonsense, is marked and asked again: a run never fails over it.
class MetricsScraper final {
 public:
  // Takes the first reading of every target before it returns; so it is called before the load.
  // INVALID_ARGUMENT for what is no address.
  static absl::StatusOr<std::unique_ptr<MetricsScraper>> Start(ScraperOptions options);
  ~MetricsScraper();
  MetricsScraper(const MetricsScraper&) = delete;
  MetricsScraper& operator=(const MetricsScraper&) = delete;

  // Takes a last reading and ends the threads. To be called once.
  ServerMetrics Stop();

 private:
  class Target;

  MetricsScraper();
  std::vector<std::unique_ptr<Target>> targets_;
  double interval_s_ = 0;
};

}  // namespace baton::bench
