#include "tools/bench/figures/metrics_reading.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace baton::bench {
namespace {

// How several samples of one name on one page become one figure.
enum class Join { kSum, kMax };

struct Rule {
  std::string_view name;  // on the page
  std::string_view short_name;
  std::string_view by;    // label whose value is appended to the short name, or ""
  std::string_view only;  // value that label `by` must have; then nothing is appended
  Join join = Join::kSum;
};

constexpr Rule kGauges[] = {
    {"baton_kv_cache_usage_perc", "kv_usage", "", "", Join::kMax},
    {"vllm:kv_cache_usage_perc", "kv_usage", "", "", Join::kMax},
    {"vllm:gpu_cache_usage_perc", "kv_usage", "", "", Join::kMax},
    {"llamacpp:kv_cache_usage_ratio", "kv_usage", "", "", Join::kMax},
    {"baton_num_requests_running", "running", "", ""},
    {"vllm:num_requests_running", "running", "", ""},
    {"llamacpp:requests_processing", "running", "", ""},
    {"baton_num_requests_waiting", "waiting", "", ""},
    {"vllm:num_requests_waiting", "waiting", "", ""},
    {"llamacpp:requests_deferred", "waiting", "", ""},
    {"baton_requests_inflight", "inflight", "", ""},
    {"baton_num_requests_in_stage", "queued", "stage", "queued"},
    {"process_resident_memory_bytes", "resident_bytes", "", ""},
};

constexpr Rule kCounters[] = {
    {"baton_num_preemptions_total", "preemptions", "", ""},
    {"vllm:num_preemptions_total", "preemptions", "", ""},
    {"baton_attempts_total", "attempts", "outcome", ""},
    {"baton_request_errors_total", "errors", "reason", ""},
    {"baton_request_success_total", "requests_ended", "finished_reason", ""},
    {"baton_request_failure_total", "requests_ended", "finished_reason", ""},
    {"vllm:request_success_total", "requests_ended", "finished_reason", ""},
    {"baton_prompt_tokens_total", "prompt_tokens", "", ""},
    {"vllm:prompt_tokens_total", "prompt_tokens", "", ""},
    {"llamacpp:prompt_tokens_total", "prompt_tokens", "", ""},
    {"baton_generation_tokens_total", "generation_tokens", "", ""},
    {"vllm:generation_tokens_total", "generation_tokens", "", ""},
    {"llamacpp:tokens_predicted_total", "generation_tokens", "", ""},
    {"baton_time_to_first_token_seconds_count", "first_tokens", "", ""},
    {"vllm:time_to_first_token_seconds_count", "first_tokens", "", ""},
    {"baton_prompt_tokens_by_source_total", "prompt_tokens", "source", ""},
    {"baton_prefix_cache_hits_total", "prefix_hits", "", ""},
    {"vllm:prefix_cache_hits_total", "prefix_hits", "", ""},
    {"baton_prefix_cache_queries_total", "prefix_queries", "", ""},
    {"vllm:prefix_cache_queries_total", "prefix_queries", "", ""},
    {"baton_kv_transfer_bytes_sum", "kv_transfer_bytes", "", ""},
    {"baton_iteration_duration_seconds_sum", "step_s", "phase", ""},
    {"baton_iteration_duration_seconds_count", "step_count", "phase", ""},
    {"process_cpu_seconds_total", "cpu_s", "", ""},
};

// The figures of a page by their short names. What is not finite is left out.
template <size_t n>
std::map<std::string, double> Pick(std::span<const MetricSample> page, const Rule (&rules)[n]) {
  std::map<std::string, double> figures;
  for (const MetricSample& sample : page) {
    for (const Rule& rule : rules) {
      if (sample.name != rule.name || !std::isfinite(sample.value)) continue;
      std::string name(rule.short_name);
      if (!rule.by.empty()) {
        const auto label = sample.labels.find(std::string(rule.by));
        if (label == sample.labels.end()) continue;
        if (!rule.only.empty() && label->second != rule.only) continue;
        if (rule.only.empty()) absl::StrAppend(&name, ".", label->second);
      }
      const auto [at, fresh] = figures.emplace(name, sample.value);
      if (fresh) continue;
      at->second =
          rule.join == Join::kSum ? at->second + sample.value : std::max(at->second, sample.value);
    }
  }
  return figures;
}

void EnterGauge(const std::string& name, double value, base::Instant now, TargetMetrics* target) {
  target->gauges[name].emplace_back(now, value);
  const auto [peak, fresh] = target->peaks.emplace(name, value);
  if (!fresh) peak->second = std::max(peak->second, value);
}

// A counter that fell belongs to a process that started again, from zero. One that was not there at
// the first answer began at zero, too.
void EnterCounter(const std::string& name, double value, bool first, TargetMetrics* target) {
  if (first) {
    target->start[name] = value;
    target->increase[name] = 0;
  } else {
    const double before = target->end.contains(name) ? target->end[name] : 0;
    target->start.emplace(name, 0);
    target->increase[name] += value >= before ? value - before : value;
  }
  target->end[name] = value;
}

}  // namespace

void EnterPage(std::span<const MetricSample> page, base::Instant now, TargetMetrics* target) {
  const bool first = target->scrapes == target->failed_scrapes;
  ++target->scrapes;
  target->answering = true;
  for (const MetricSample& sample : page) {
    const auto role = sample.labels.find("role");
    if (role == sample.labels.end() || !sample.name.starts_with("baton_")) continue;
    target->role = role->second;
    break;
  }
  for (const auto& [name, value] : Pick(page, kGauges)) EnterGauge(name, value, now, target);
  for (const auto& [name, value] : Pick(page, kCounters)) EnterCounter(name, value, first, target);
}

}  // namespace baton::bench
