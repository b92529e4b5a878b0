#include <algorithm>

#include "common/base/status.h"
#include "common/metrics/metric_table.h"

namespace baton {
namespace {

using Combinations = std::vector<std::vector<std::string>>;

MetricLabel FinishedReason() { return {"finished_reason", {"stop", "length"}}; }

MetricLabel FailedReason() {
  return {"finished_reason", {"abort", "deadline", "error", "rejected"}};
}

MetricLabel StopCause() {
  return {"stop_cause", {"eos", "token", "string", "grammar", "runaway", "none"}};
}

Combinations Endings() {
  return {{"stop", "eos"},     {"stop", "token"},  {"stop", "string"},
          {"stop", "grammar"}, {"length", "none"}, {"length", "runaway"}};
}

std::string Name(Reason reason) { return std::string(ReasonName(reason)); }

// The statuses that a client can get, with their reasons; the reason is "none" where the code says
// it all.
Combinations ErrorPairs() {
  Combinations pairs = {{"CANCELLED", "none"},        {"DEADLINE_EXCEEDED", "none"},
                        {"INTERNAL", "none"},         {"UNAVAILABLE", "none"},
                        {"UNIMPLEMENTED", "none"},    {"INVALID_ARGUMENT", "none"},
                        {"PERMISSION_DENIED", "none"}};
  for (const Reason reason :
       {Reason::kEmptyPrompt, Reason::kTooLong, Reason::kInvalidTokenId, Reason::kInvalidText,
        Reason::kInvalidSampling, Reason::kInvalidGuide, Reason::kInvalidMaxTokens,
        Reason::kConflictingOptions, Reason::kLimitExceeded}) {
    pairs.push_back({"INVALID_ARGUMENT", Name(reason)});
  }
  pairs.push_back({"UNAUTHENTICATED", Name(Reason::kInvalidApiKey)});
  pairs.push_back({"NOT_FOUND", Name(Reason::kModelNotFound)});
  pairs.push_back({"UNIMPLEMENTED", Name(Reason::kUnsupportedField)});
  pairs.push_back({"RESOURCE_EXHAUSTED", Name(Reason::kQueueFull)});
  pairs.push_back({"RESOURCE_EXHAUSTED", Name(Reason::kSlowClient)});
  for (const Reason reason :
       {Reason::kNoWorker, Reason::kAttemptsExhausted, Reason::kDraining, Reason::kDrained}) {
    pairs.push_back({"UNAVAILABLE", Name(reason)});
  }
  pairs.push_back({"INTERNAL", Name(Reason::kRequestKilledWorkers)});
  pairs.push_back({"INTERNAL", Name(Reason::kLogitsNotFinite)});
  pairs.push_back({"other", "other"});
  return pairs;
}

// The distinct values of one column, in order of appearance.
std::vector<std::string> Column(const Combinations& rows, size_t column) {
  std::vector<std::string> values;
  for (const auto& row : rows) {
    if (std::find(values.begin(), values.end(), row[column]) == values.end()) {
      values.push_back(row[column]);
    }
  }
  return values;
}

MetricInfo Plain(Metric id, MetricType type, std::string name, std::vector<MetricLabel> labels,
                 std::string help, Combinations precreated = {}) {
  MetricInfo row = Row(id, type, kRouterOwns, std::move(name), std::move(help), std::move(labels));
  row.precreated = std::move(precreated);
  return row;
}

std::vector<MetricInfo> RequestHistograms() {
  return {
      RouterHistogram(Metric::kTimeToFirstToken, "baton_time_to_first_token_seconds",
                      FirstTokenBuckets(), "From a request's arrival to its first token."),
      RouterHistogram(Metric::kInterTokenLatency, "baton_inter_token_latency_seconds",
                      InterTokenBuckets(), "Between consecutive tokens of a request."),
      RouterHistogram(Metric::kRequestTimePerOutputToken,
                      "baton_request_time_per_output_token_seconds", InterTokenBuckets(),
                      "Mean time between tokens, once per finished request."),
      RouterHistogram(Metric::kE2eRequestLatency, "baton_e2e_request_latency_seconds",
                      RequestBuckets(), "From a request's arrival to its end."),
      RouterHistogram(Metric::kRequestPromptTokens, "baton_request_prompt_tokens", LengthBuckets(),
                      "Prompt tokens, once per finished request."),
      RouterHistogram(Metric::kRequestGenerationTokens, "baton_request_generation_tokens",
                      LengthBuckets(), "Accepted output tokens, once per finished request."),
      RouterHistogram(Metric::kRequestParamsMaxTokens, "baton_request_params_max_tokens",
                      LengthBuckets(), "The max_tokens that requests ask for."),
      RouterHistogram(Metric::kRequestDeadlineSlack, "baton_request_deadline_slack_seconds",
                      RequestBuckets(), "Time left until the request's deadline when it ended."),
  };
}

}  // namespace

std::vector<MetricInfo> RequestMetrics() {
  const Combinations errors = ErrorPairs();
  std::vector<MetricInfo> rows = RequestHistograms();
  const auto counter = MetricType::kCounter;
  rows.push_back(Plain(Metric::kRequestSuccess, counter, "baton_request_success_total",
                       {FinishedReason(), StopCause()},
                       "Requests that were answered to their end: by what stops them, or at the "
                       "length asked for.",
                       Endings()));
  rows.push_back(Plain(Metric::kRequestFailure, counter, "baton_request_failure_total",
                       {FailedReason()},
                       "Requests without a whole answer. abort: the client left; deadline: its "
                       "time was over; error: the service failed; rejected: refused before it ran, "
                       "as wrong or for want of room (baton_request_errors_total says why)."));
  rows.push_back(Plain(Metric::kRequestsReceived, counter, "baton_requests_received_total",
                       {{"transport", {"grpc", "http"}}},
                       "Requests for tokens that arrived, over gRPC or HTTP: "
                       "baton_request_success_total, baton_request_failure_total and "
                       "baton_requests_inflight together."));
  rows.push_back(Plain(Metric::kPromptTokens, counter, "baton_prompt_tokens_total", {},
                       "Prompt tokens of finished requests."));
  rows.push_back(Plain(Metric::kGenerationTokens, counter, "baton_generation_tokens_total", {},
                       "Output tokens accepted from workers."));
  rows.push_back(Plain(Metric::kRequestErrors, counter, "baton_request_errors_total",
                       {{"code", Column(errors, 0)}, {"reason", Column(errors, 1)}},
                       "Requests that ended in an error, by gRPC code and reason.", errors));
  rows.push_back(Plain(Metric::kRequestsInflight, MetricType::kGauge, "baton_requests_inflight", {},
                       "Requests that arrived and have not ended."));
  rows.push_back(Plain(Metric::kRequestBytesInflight, MetricType::kGauge,
                       "baton_request_bytes_inflight", {},
                       "Bytes that requests in flight hold, of --max-inflight-bytes: each its "
                       "message, then its prompt's ids, and what is gathered of its answers."));
  rows.push_back(Plain(Metric::kQueueOldestWait, MetricType::kGauge,
                       "baton_queue_oldest_wait_seconds", {},
                       "How long the request that came first, of those that wait for a first "
                       "attempt, has been in the queue; 0 when none waits."));
  rows.push_back(Plain(Metric::kQueueRejections, counter, "baton_queue_rejections_total",
                       {{"limit", {"requests", "deadline", "text"}}},
                       "Requests that the queue refused because it was full, or gave up because "
                       "their deadline passed while waiting; text: requests and calls of Tokenize "
                       "and Detokenize for which the text pool before it had no room."));
  rows.push_back(Plain(Metric::kTextsWaiting, MetricType::kGauge, "baton_texts_waiting", {},
                       "Messages, prompts and guides that wait for the text pool, before their "
                       "requests are queued, and calls of Tokenize and Detokenize."));
  rows.push_back(Plain(Metric::kTextBytesWaiting, MetricType::kGauge, "baton_text_bytes_waiting",
                       {}, "Bytes of what waits for the text pool."));
  rows.push_back(
      Plain(Metric::kAttempts, counter, "baton_attempts_total",
            {{"outcome",
              {"finished", "released", "cancelled", "deadline", "full", "too_long", "draining",
               "revoked", "expired", "unknown_ticket", "layout_mismatch", "push_failed",
               "stream_broken", "worker_died", "device_fault", "not_finite", "other"}}},
            "Attempts (one Decode and at most one Prefill stream) that ended, by how."));
  return rows;
}

}  // namespace baton
