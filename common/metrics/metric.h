#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// The one table of metrics: what exists, who owns it and what its labels may say. The registry, the
// document docs/metrics.md and `baton metrics list` are made from it.
//
// A new metric is a value of Metric and a row in one of the files of metric_table.h. Its owner
// looks its series up once and keeps them:
//
//   MetricsRegistry registry({.role = MetricRole::kRouter, .model_name = "demo"});
//   prometheus::Counter& rejected = registry.counter(Metric::kQueueRejections, {"deadline"});
//   rejected.Increment();
//   registry.histogram(Metric::kTimeToFirstToken).Observe(0.031);  // seconds
//   std::string page = registry.Expose();  // what /metrics answers
namespace baton {

enum class Metric {
  // Requests; the router's.
  kRequestSuccess,
  kRequestFailure,
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
  kRequestBytesInflight,
  kQueueOldestWait,
  kQueueRejections,
  kTextsWaiting,
  kTextBytesWaiting,
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
  kPreemptionsByWay,
  kStepsOverlapped,
  kSequencesNotFinite,
  kSpecDecodeNumDrafts,
  kSpecDecodeNumDraftTokens,
  kSpecDecodeNumAcceptedTokens,
  kSpecDecodeNumAcceptedTokensPerPos,
  kSpecDecodeDraftSteps,
  kSpecDecodeDraftFedTokens,
  kSpecDecodeDraftTime,
  kSpecDecodeDraftDropped,
  kSpecDecodeDraftKvUsage,
  kGuideForcedTokens,
  kGuideJumpedTokens,
  kIterationTokens,
  kIterationDuration,
  kBatchSize,
  kDecodeStepDuration,
  kWorkerTakes,
  kRoleChanges,
  kRolePromptWait,
  kRolePrefillLoad,
  kRoleDecodeFill,
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
  kSwapSpaceUsage,
  kSwapBlocks,
  kSwapBytes,
  kSwapMisses,
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
  kPdReason,
  // Routing.
  kRouterWorkerUp,
  kRouterPickDuration,
  kRouterPicks,
  kRouterChoices,
  kRouterCachedShare,
  kRouterKnownCachedBlocks,
  kRouterWorkerRetries,
  kRouterNumericsMismatch,
  kRouterPairWarmups,
  // HTTP port and keys.
  kHttpConnections,
  kHttpConnectionsRefused,
  kHttpAnswers,
  kHttpRefusals,
  kApiKeyRefusals,
  // Tenants.
  kTenantRequestsWaiting,
  kTenantRequestsRunning,
  kTenantPromptTokens,
  kTenantGenerationTokens,
  kTenantTimeToFirstToken,
  kTenantQueueTime,
  // End of sequence.
  kEosStepProbability,
  kEosProbabilityAtStop,
  kEosIgnoredSteps,
  kEosFirstNaturalPosition,
  kIgnoreEosRequests,
  kRunaway,
  kPassedSpecialTokens,
  kEosLogDropped,
  kEosLogUpkeepFailures,
  kEndPredictionError,
  kEndPredictionCalibration,
  kPredictedRemainingTokens,
  kPredictedKvReadTokens,
  kEndPredictionDuration,
  kPredictorInfo,
  kEndPredictionsDropped,
  // Traces.
  kTraceSpansExported,
  kTraceSpansDropped,
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

// The processes that own metrics, as bits. Their names are the values of the label `role`.
enum class MetricRole : uint8_t { kRouter = 1, kPrefill = 2, kDecode = 4 };

struct MetricLabel {
  std::string name;
  // Every value that the label may have. When this is empty the label is open: any value goes, up
  // to a number of series (see MetricsRegistry). When it holds "other", every value that is not in
  // it counts as that; when it does not, an unknown value is a bug.
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
  // The label values of the series that exist from the start, one list for each series. A row that
  // leaves them out gets every combination of its labels' values, or none when a label is open.
  std::vector<std::vector<std::string>> precreated;
  // The values of its open label are what the operator listed, and are removed with it, so that
  // their number needs no bound.
  bool listed = false;

  bool OwnedBy(MetricRole role) const { return (owners & static_cast<uint8_t>(role)) != 0; }
};

// Every metric, in the order of the enum.
const std::vector<MetricInfo>& MetricTable();
const MetricInfo& InfoOf(Metric metric);

std::string_view MetricTypeName(MetricType type);  // "counter", ...
std::string_view MetricRoleName(MetricRole role);  // "router", ...

// The bounds 1, 2, 5, 10, 20, ..., up to the last one that is not above `max`.
std::vector<double> OneTwoFive(double max);

}  // namespace baton
