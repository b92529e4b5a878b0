#include <cstdint>
#include <string>
#include <vector>

#include "common/base/max_proposals.h"
#include "common/metrics/metric_table.h"

namespace baton {
namespace {

const char* const kStages[] = {"queued", "reserved", "prefilling", "decoding", "preempted"};
const char* const kEnds[] = {"done", "failed"};

std::vector<std::vector<std::string>> Transitions() {
  std::vector<std::vector<std::string>> pairs;
  for (const char* from : kStages) {
    for (const char* to : kStages) {
      if (from != to) pairs.push_back({from, to});
    }
    for (const char* to : kEnds) pairs.push_back({from, to});
  }
  return pairs;
}

MetricInfo WorkerRow(Metric id, MetricType type, std::string name, std::string help) {
  return Row(id, type, kWorkersOwn, std::move(name), std::move(help));
}

MetricInfo Labelled(MetricInfo row, std::string label, std::vector<std::string> values) {
  row.labels.push_back({std::move(label), std::move(values)});
  return row;
}

std::vector<MetricInfo> Stages() {
  const std::vector<std::string> stages(std::begin(kStages), std::end(kStages));
  MetricInfo in_stage =
      WorkerRow(Metric::kNumRequestsInStage, MetricType::kGauge, "baton_num_requests_in_stage",
                "Requests in each state; the router's are whole requests, a worker's "
                "are the sequences it holds.");
  in_stage = Labelled(std::move(in_stage), "stage", stages);
  in_stage.owners = kAllOwn;
  MetricInfo transitions =
      WorkerRow(Metric::kStageTransitions, MetricType::kCounter, "baton_stage_transitions_total",
                "Changes of a sequence's state in a worker's engine.");
  std::vector<std::string> to = stages;
  to.insert(to.end(), std::begin(kEnds), std::end(kEnds));
  transitions = Labelled(Labelled(std::move(transitions), "from", stages), "to", to);
  transitions.precreated = Transitions();
  return {in_stage, transitions};
}

// Of workers that may change their role.
std::vector<MetricInfo> Roles() {
  std::vector<MetricInfo> rows = {
      Labelled(WorkerRow(Metric::kWorkerTakes, MetricType::kGauge, "baton_worker_takes",
                         "1 for the role in which the worker takes new requests, else 0."),
               "work", {"prefill", "decode"}),
      Labelled(
          Labelled(WorkerRow(Metric::kRoleChanges, MetricType::kCounter, "baton_role_changes_total",
                             "Changes of the role in which an elastic worker takes new "
                             "requests: because prompts waited, places or time between "
                             "tokens ran out, or nobody took that role."),
                   "to", {"prefill", "decode"}),
          "reason", {"prompts", "places", "nobody"}),
      WorkerRow(Metric::kRolePromptWait, MetricType::kGauge, "baton_role_prompt_wait_seconds",
                "Cluster-wide, as last reported to this elastic worker: how long a prompt that "
                "comes now would wait to be computed."),
      WorkerRow(Metric::kRolePrefillLoad, MetricType::kGauge, "baton_role_prefill_load",
                "Cluster-wide, as last reported to this elastic worker: share of their recent "
                "time that workers of the prefill role spent on prompts."),
      WorkerRow(Metric::kRoleDecodeFill, MetricType::kGauge, "baton_role_decode_fill",
                "Cluster-wide, as last reported to this elastic worker: mean fill of the workers "
                "of the decode role; 1 is full.")};
  for (MetricInfo& row : rows) row.owners = kDecodeOwns;
  return rows;
}

std::vector<MetricInfo> Phases() {
  MetricInfo queue_time = WorkerHistogram(
      Metric::kRequestQueueTime, "baton_request_queue_time_seconds", RequestBuckets(),
      "At the router: all waiting of a request before its prompt was computed, or never was: over "
      "all attempts, in the router's queue, for blocks and in workers' lines; told at its end. At "
      "a worker: a sequence's wait before its first step.");
  queue_time.owners = kAllOwn;
  return {
      queue_time,
      WorkerHistogram(Metric::kRequestPrefillTime, "baton_request_prefill_time_seconds",
                      RequestBuckets(), "From a sequence's first step to its first token."),
      WorkerHistogram(Metric::kRequestDecodeTime, "baton_request_decode_time_seconds",
                      RequestBuckets(), "From a sequence's first token here to its last."),
      WorkerHistogram(Metric::kRequestInferenceTime, "baton_request_inference_time_seconds",
                      RequestBuckets(), "Prefill and decode time together."),
  };
}

std::vector<MetricInfo> Steps() {
  return {
      WorkerHistogram(Metric::kIterationTokens, "baton_iteration_tokens", IterationTokenBuckets(),
                      "Tokens fed in one step."),
      Labelled(WorkerHistogram(Metric::kIterationDuration, "baton_iteration_duration_seconds",
                               ShortTimeBuckets(), "Time of one step, by what it held."),
               "phase", {"prefill", "decode", "mixed"}),
      Labelled(
          WorkerHistogram(Metric::kBatchSize, "baton_batch_size",
                          {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024},
                          "Sequences in one step, of those that prefill and those that decode."),
          "phase", {"prefill", "decode"}),
  };
}

std::vector<MetricInfo> Speculation() {
  const auto counter = MetricType::kCounter;
  std::vector<std::string> positions;
  for (int32_t i = 0; i < kMaxProposals; ++i) positions.push_back(std::to_string(i));
  return {
      WorkerRow(Metric::kSpecDecodeNumDrafts, counter, "baton_spec_decode_num_drafts_total",
                "Rows of steps that verified foretold tokens."),
      WorkerRow(Metric::kSpecDecodeNumDraftTokens, counter,
                "baton_spec_decode_num_draft_tokens_total", "Foretold tokens that were verified."),
      WorkerRow(Metric::kSpecDecodeNumAcceptedTokens, counter,
                "baton_spec_decode_num_accepted_tokens_total",
                "Those of them that were drawn: tokens that cost no step of their own."),
      Labelled(WorkerRow(Metric::kSpecDecodeNumAcceptedTokensPerPos, counter,
                         "baton_spec_decode_num_accepted_tokens_per_pos_total",
                         "The same by their place among the tokens foretold at once, from 0 on."),
               "position", positions),
      WorkerRow(Metric::kGuideForcedTokens, counter, "baton_guide_forced_tokens_total",
                "Tokens of answers whose guide left no other choice."),
      WorkerRow(Metric::kGuideJumpedTokens, counter, "baton_guide_jumped_tokens_total",
                "Those of them that cost no step of their own."),
  };
}

// Of workers that have a draft model.
std::vector<MetricInfo> Drafting() {
  const auto counter = MetricType::kCounter;
  std::vector<MetricInfo> rows = {
      WorkerRow(Metric::kSpecDecodeDraftSteps, counter, "baton_spec_decode_draft_steps_total",
                "Steps of the draft model; one foretells a token of each answer in it."),
      WorkerRow(Metric::kSpecDecodeDraftFedTokens, counter,
                "baton_spec_decode_draft_fed_tokens_total",
                "Tokens that the draft model computed: those of prompts and answers that it "
                "read, and those that it foretold."),
      WorkerRow(Metric::kSpecDecodeDraftTime, counter, "baton_spec_decode_draft_time_seconds_total",
                "Time of the engine that the draft model took."),
      WorkerRow(Metric::kSpecDecodeDraftDropped, counter, "baton_spec_decode_draft_dropped_total",
                "Answers that gave up their blocks of the draft model's KV cache because that was "
                "full; nothing is foretold for them until there is room."),
      WorkerRow(Metric::kSpecDecodeDraftKvUsage, MetricType::kGauge,
                "baton_spec_decode_draft_kv_cache_usage_perc",
                "Share of the draft model's KV cache that is in use; 1 is all of it.")};
  for (MetricInfo& row : rows) row.owners = kDecodeOwns;
  return rows;
}

}  // namespace

std::vector<MetricInfo> LoadMetrics() {
  std::vector<MetricInfo> rows = Stages();
  for (auto* more : {&Phases, &Steps, &Speculation, &Drafting}) {
    for (MetricInfo& row : (*more)()) rows.push_back(std::move(row));
  }
  const auto gauge = MetricType::kGauge;
  const auto counter = MetricType::kCounter;
  rows.push_back(WorkerRow(Metric::kNumRequestsRunning, gauge, "baton_num_requests_running",
                           "Sequences that prefill or decode."));
  rows.push_back(WorkerRow(Metric::kNumRequestsWaiting, gauge, "baton_num_requests_waiting",
                           "At the router: requests that wait for workers, in its queue or for "
                           "blocks. At a worker: sequences that wait, for whatever."));
  rows.back().owners = kAllOwn;
  rows.push_back(Labelled(
      WorkerRow(Metric::kNumRequestsWaitingByReason, gauge, "baton_num_requests_waiting_by_reason",
                "Sequences that wait for blocks or a place in a step (capacity), or "
                "for their KV cache to arrive (transfer)."),
      "reason", {"capacity", "transfer"}));
  rows.push_back(
      WorkerRow(Metric::kNumPreemptions, counter, "baton_num_preemptions_total",
                "Running sequences that gave up their blocks for want of blocks or places."));
  rows.push_back(Labelled(
      WorkerRow(Metric::kPreemptionsByWay, counter, "baton_preemptions_by_way_total",
                "The same by what becomes of their KV: it is computed again (recompute), or copied "
                "to the swap space and back (swap)."),
      "way", {"recompute", "swap"}));
  rows.push_back(WorkerRow(Metric::kStepsOverlapped, counter, "baton_steps_overlapped_total",
                           "Steps handed to the device while it computed another one."));
  rows.push_back(
      WorkerRow(Metric::kSequencesNotFinite, counter, "baton_sequences_not_finite_total",
                "Sequences ended because the model's logits for them were not finite numbers."));
  rows.push_back(WorkerRow(
      Metric::kDecodeStepDuration, gauge, "baton_decode_step_seconds",
      "Mean time of the last seconds' steps in which answers went on, prompts beside them "
      "included: what one token takes here; 0 when none goes on."));
  for (MetricInfo& row : Roles()) rows.push_back(std::move(row));
  rows.push_back(Labelled(
      WorkerRow(Metric::kPromptTokensBySource, counter, "baton_prompt_tokens_by_source_total",
                "Prompt tokens by where their KV came from."),
      "source", {"local_compute", "local_cache_hit", "external_kv_transfer"}));
  rows.push_back(WorkerRow(
      Metric::kModelFlopsUtilization, gauge, "baton_model_flops_utilization",
      "Model FLOPs of the last seconds over the machine's peak measured at start; 0 where "
      "that failed."));
  rows.push_back(WorkerRow(
      Metric::kMemoryBandwidthUtilization, gauge, "baton_memory_bandwidth_utilization",
      "Bytes that steps of the last seconds had to read over the bandwidth measured at "
      "start; above 1 where the caches of the processor hold them, 0 where measuring failed."));
  return rows;
}

}  // namespace baton
