#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// The one table of metrics: what exists, who owns it and what its labels may say. The registry, the
// document docs/metrics.md and `baton metrics list` are made from it.
namespace baton {

enum class Metric {
  // Requests; the router's.
  kRequestSuccess,
  kRequestsReceived,
  kTimeToFirstToken,
  kInterTokenLatency,
  kRequestTimePerOutputToken,
  kE2eRequestLatency,
  kRequestPromptTokens,
  kRequestGenerationTokens,
  kRequestParamsMaxTokens,
  kPromptTokens,
  kGenerationTokens,
  kRequestErrors,
  kRequestsInflight,
  kQueueRejections,
  kRequestDeadlineSlack,
  kAttempts,
  // Phases and load.
  kNumRequestsInStage,
  kStageTransitions,
  kRequestQueueTime,
  kRequestPrefillTime,
  kRequestDecodeTime,
  kRequestInferenceTime,
  kNumRequestsRunning,
  kNumRequestsWaiting,
  kNumRequestsWaitingByReason,
  kNumPreemptions,
  kStepsOverlapped,
  kIterationTokens,
  kIterationDuration,
  kBatchSize,
  kPromptTokensBySource,
  kModelFlopsUtilization,
  kMemoryBandwidthUtilization,
  // KV cache.
  kKvCacheUsage,
  kKvBlocks,
  kCacheConfigInfo,
  kPrefixCacheQueries,
  kPrefixCacheHits,
  kKvEvictedBlocks,
  // Handoff.
  kKvTransferDuration,
  kKvTransferBytes,
  kKvTransferFailures,
  kReservationsExpired,
  kKvTransferNumericsMismatch,
  kKvPushes,
  kKvPairs,
  kKvPairEvents,
  kKvPairBytes,
  kKvPairGrantWait,
  kPdDecision,
  // Routing.
  kRouterWorkerUp,
  kRouterPickDuration,
  kRouterPicks,
  kRouterWorkerRetries,
  kRouterNumericsMismatch,
  kRouterPairWarmups,
  // End of sequence.
  kEosStepProbability,
  kEosProbabilityAtStop,
  kEosIgnoredSteps,
  kEosFirstNaturalPosition,
  kIgnoreEosRequests,
  kEosLogDropped,
  // Process.
  kServerState,
  kModelLoadDuration,
  kBuildInfo,
  kConfigInfo,
  kProcessCpuSeconds,
  kProcessResidentMemory,
  kProcessVirtualMemory,
  kProcessOpenFds,
  kProcessMaxFds,
  kProcessStartTime,
};

enum class MetricType { kCounter, kGauge, kHistogram };

// Also the value of the label `role`.
enum class MetricRole : uint8_t { kRouter = 1, kPrefill = 2, kDecode = 4 };

struct MetricLabel {
  std::string name;
  // Every value it may have. Empty: open, but capped (see MetricsRegistry). A set with "other" maps
  // what is not in it to that; for sets without, an unknown value is a bug.
  std::vector<std::string> values;
};

struct MetricInfo {
  Metric id;
  std::string name;
  MetricType type;
  uint8_t owners;  // bits of MetricRole
  std::vector<MetricLabel> labels;
  std::vector<double> buckets;  // upper bounds, without +Inf
  std::string help;
  // Label values of the series that exist from the start; derived from `labels` when those are
  // closed and not every combination is excluded.
  std::vector<std::vector<std::string>> precreated;

  bool OwnedBy(MetricRole role) const { return (owners & static_cast<uint8_t>(role)) != 0; }
};

// In the order of the enum.
const std::vector<MetricInfo>& MetricTable();
const MetricInfo& InfoOf(Metric metric);

std::string_view MetricTypeName(MetricType type);  // "counter", ...
std::string_view MetricRoleName(MetricRole role);  // "router", ...

// 1, 2, 5, 10, 20, ... up to and including the last one that is <= max.
std::vector<double> OneTwoFive(double max);

}  // namespace baton
