#include "common/metrics/metric_table.h"

namespace baton {
namespace {

MetricInfo SharedRow(Metric id, MetricType type, std::string name, std::string help,
                     std::vector<MetricLabel> labels = {}) {
  return Row(id, type, kAllOwn, std::move(name), std::move(help), std::move(labels));
}

}  // namespace

std::vector<MetricInfo> ProcessMetrics() {
  const auto gauge = MetricType::kGauge;
  MetricInfo load =
      SharedRow(Metric::kModelLoadDuration, gauge, "baton_model_load_duration_seconds",
                "Time to get the model ready, once at start. checkpoint: files opened, "
                "checked and fingerprinted; weights: read and packed; kv_cache: allocated "
                "and touched; kernels: made for every size of step; total: these and the "
                "tokenizer and the measurement of the machine.",
                {{"phase", {"checkpoint", "weights", "kv_cache", "kernels", "total"}}});
  load.owners = kWorkersOwn;
  return {
      SharedRow(Metric::kTraceSpansExported, MetricType::kCounter,
                "baton_trace_spans_exported_total",
                "Spans that the collector of --otlp-endpoint took."),
      SharedRow(Metric::kTraceSpansDropped, MetricType::kCounter, "baton_trace_spans_dropped_total",
                "Spans that were not exported. queue_full: more waited than the queue holds; "
                "unreachable: the collector did not answer or had no room; rejected: it refused "
                "them; shutdown: the process ended first.",
                {{"reason", {"queue_full", "unreachable", "rejected", "shutdown"}}}),
      SharedRow(Metric::kServerState, gauge, "baton_server_state",
                "1 for the present state, else 0. ready is what /readyz calls so; a router that "
                "sees no healthy decode worker is unhealthy.",
                {{"state", {"starting", "ready", "draining", "unhealthy"}}}),
      load,
      SharedRow(Metric::kBuildInfo, gauge, "baton_build_info", "1; its labels describe the binary.",
                {{"version", {}}, {"compiler", {}}}),
      SharedRow(
          Metric::kConfigInfo, gauge, "baton_config_info",
          "1; its labels are the settings in force that shape what the process can take, and its "
          "scheduling policy; empty where they do not apply to the role.",
          {{"max_model_len", {}},
           {"max_num_seqs", {}},
           {"max_num_batched_tokens", {}},
           {"max_num_queued_reqs", {}},
           {"dtype", {}},
           {"isa", {}},
           {"threads", {}},
           {"policy", {}}}),
      SharedRow(Metric::kProcessCpuSeconds, MetricType::kCounter, "process_cpu_seconds_total",
                "User and system time of the process."),
      SharedRow(Metric::kProcessResidentMemory, gauge, "process_resident_memory_bytes",
                "Resident memory of the process."),
      SharedRow(Metric::kProcessVirtualMemory, gauge, "process_virtual_memory_bytes",
                "Virtual memory of the process."),
      SharedRow(Metric::kProcessOpenFds, gauge, "process_open_fds", "Open file descriptors."),
      SharedRow(Metric::kProcessMaxFds, gauge, "process_max_fds",
                "File descriptors that the process may open."),
      SharedRow(Metric::kProcessStartTime, gauge, "process_start_time_seconds",
                "When the process started, in Unix seconds."),
  };
}

}  // namespace baton
