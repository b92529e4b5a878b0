#include <algorithm>
#include <iterator>

#include "common/metrics/metric_table.h"

namespace baton {
namespace {

// What the probability of EOS was, and how answers ended.
std::vector<MetricInfo> Signals() {
  return {WorkerHistogram(Metric::kEosStepProbability, "baton_eos_step_probability",
                          ProbabilityBuckets(), "eos_prob of every sampled token."),
          WorkerHistogram(Metric::kEosProbabilityAtStop, "baton_eos_probability_at_stop",
                          ProbabilityBuckets(),
                          "eos_prob of the step that drew EOS and ended its sequence."),
          Row(Metric::kEosIgnoredSteps, MetricType::kCounter, kWorkersOwn,
              "baton_eos_ignored_steps_total",
              "Steps under an ignore policy at which EOS was the most likely token."),
          RouterHistogram(Metric::kEosFirstNaturalPosition,
                          "baton_eos_first_natural_position_tokens", LengthBuckets(),
                          "Step at which a request that ignores EOS would have ended by itself."),
          Row(Metric::kIgnoreEosRequests, MetricType::kCounter, kRouterOwns,
              "baton_ignore_eos_requests_total", "Requests that asked to ignore EOS.",
              {{"policy", {"continue", "mask"}}}),
          Row(Metric::kRunaway, MetricType::kCounter, kWorkersOwn, "baton_runaway_total",
              "Answers that went round in circles with no end in sight, and what was done.",
              {{"action", {"warn", "end"}}}),
          Row(Metric::kPassedSpecialTokens, MetricType::kCounter, kWorkersOwn,
              "baton_passed_special_tokens_total",
              "Answers that went on behind a special token where they could have ended: many "
              "mean that an id is missing among the EOS ids.")};
}

// Whether the EOS log is whole.
std::vector<MetricInfo> Log() {
  return {
      Row(Metric::kEosLogDropped, MetricType::kCounter, kRouterOwns, "baton_eos_log_dropped_total",
          "Lines of the EOS log that were lost: the disk was full or too slow."),
      Row(Metric::kEosLogUpkeepFailures, MetricType::kCounter, kRouterOwns,
          "baton_eos_log_upkeep_failures_total",
          "Files of the EOS log that could not be rotated, compressed or removed; no line is "
          "lost by that.",
          {{"step", {"rotate", "compress", "remove"}}})};
}

// What was foreseen of ends, what came of it and what it cost.
std::vector<MetricInfo> Predictions() {
  return {WorkerHistogram(
              Metric::kEndPredictionError, "baton_end_prediction_error_tokens", LengthBuckets(),
              "Tokens between the expected and the real remainder of answers that the model ended, "
              "for estimates of one step in 16; horizon: the smallest that the real one is within.",
              {{"horizon", {"1", "4", "16", "64", "256", "beyond"}}}),
          Row(Metric::kEndPredictionCalibration, MetricType::kCounter, kWorkersOwn,
              "baton_end_prediction_calibration_total",
              "Estimates of an end within the horizon, of one step in 16, by what was said (up to "
              "the bin's number) and what then happened; without those that max_tokens left less "
              "than the horizon. unknown: neither the model nor max_tokens ended the answer.",
              {{"horizon", {"1", "4", "16", "64", "256"}},
               {"bin", {"0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9", "1.0"}},
               {"outcome", {"ended", "went_on", "unknown"}}}),
          Row(Metric::kPredictedRemainingTokens, MetricType::kGauge, kWorkersOwn,
              "baton_predicted_remaining_tokens",
              "Tokens that running sequences are expected to draw yet, held to their limits; those "
              "without an estimate are not in it."),
          Row(Metric::kPredictedKvReadTokens, MetricType::kGauge, kWorkersOwn,
              "baton_predicted_kv_read_tokens",
              "Tokens in the KV cache of running sequences times those that each is expected to "
              "draw yet, summed up: what their remaining steps read of the cache at least. "
              "Sequences without an estimate are not in it."),
          WorkerHistogram(Metric::kEndPredictionDuration, "baton_end_prediction_duration_seconds",
                          ShortTimeBuckets(),
                          "Time of the engine's thread that the estimates of one step took."),
          Row(Metric::kPredictorInfo, MetricType::kGauge, kWorkersOwn, "baton_predictor_info",
              "1 for what foresees ends here: the kind of model, and the file that it is from.",
              {{"kind", {}}, {"version", {}}}),
          Row(Metric::kEndPredictionsDropped, MetricType::kCounter, kRouterOwns,
              "baton_end_predictions_dropped_total",
              "Predictions of ends that clients asked for and did not get, for they read their "
              "stream too slowly; no token is lost by that.")};
}

}  // namespace

std::vector<MetricInfo> EosMetrics() {
  std::vector<MetricInfo> rows = Signals();
  std::ranges::move(Log(), std::back_inserter(rows));
  std::ranges::move(Predictions(), std::back_inserter(rows));
  return rows;
}

}  // namespace baton
