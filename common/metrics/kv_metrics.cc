#include "common/metrics/metric_table.h"

namespace baton {
namespace {

std::vector<double> TransferByteBuckets() {
  std::vector<double> buckets;
  for (double bytes = 65536; bytes <= 68'719'476'736.0; bytes *= 4) buckets.push_back(bytes);
  return buckets;
}

std::vector<MetricInfo> CacheMetrics() {
  const auto gauge = MetricType::kGauge;
  const auto counter = MetricType::kCounter;
  return {
      Row(Metric::kKvCacheUsage, gauge, kWorkersOwn, "baton_kv_cache_usage_perc",
          "Share of KV blocks in use, 0 to 1; cached blocks that nobody uses count as free."),
      Row(Metric::kKvBlocks, gauge, kWorkersOwn, "baton_kv_blocks",
          "KV blocks by state; the states add up to all blocks.",
          {{"state", {"free", "cached", "quarantined", "used"}}}),
      Row(Metric::kCacheConfigInfo, gauge, kWorkersOwn, "baton_cache_config_info",
          "1; its labels describe the KV cache (num_gpu_blocks, as vLLM calls it, counts all "
          "blocks of the device).",
          {{"block_size", {}}, {"num_gpu_blocks", {}}, {"cache_dtype", {}}}),
      Row(Metric::kPrefixCacheQueries, counter, kWorkersOwn, "baton_prefix_cache_queries_total",
          "Prompt tokens looked up in the prefix cache."),
      Row(Metric::kPrefixCacheHits, counter, kWorkersOwn, "baton_prefix_cache_hits_total",
          "Prompt tokens found in the prefix cache."),
      Row(Metric::kKvEvictedBlocks, counter, kWorkersOwn, "baton_kv_evicted_blocks_total",
          "Cached blocks that were given up, by why.", {{"cause", {"capacity"}}}),
  };
}

std::vector<MetricInfo> SwapMetrics() {
  const auto counter = MetricType::kCounter;
  return {
      Row(Metric::kSwapSpaceUsage, MetricType::kGauge, kDecodeOwns, "baton_swap_space_usage_perc",
          "Share of the swap space that holds KV of preempted sequences, 0 to 1; 0 without one."),
      Row(Metric::kSwapBlocks, counter, kDecodeOwns, "baton_swap_blocks_total",
          "KV blocks that were copied to the swap space (out) and back (in).",
          {{"direction", {"out", "in"}}}),
      Row(Metric::kSwapBytes, counter, kDecodeOwns, "baton_swap_bytes_total",
          "Bytes of these blocks, on all ranks.", {{"direction", {"out", "in"}}}),
      Row(Metric::kSwapMisses, counter, kDecodeOwns, "baton_swap_misses_total",
          "Sequences that had to compute again what was to be swapped: the swap space was full, or "
          "the beginning, which was left in the prefix cache, was gone.",
          {{"cause", {"full", "lost"}}}),
  };
}

std::vector<MetricInfo> PairMetrics() {
  const auto counter = MetricType::kCounter;
  std::vector<MetricInfo> rows = {
      Row(Metric::kKvPushes, counter, kPrefillOwns, "baton_kv_pushes_total",
          "Handoffs by how their blocks began to travel: as gRPC messages, or from device to "
          "device.",
          {{"transport", {"grpc", "nccl", "cuda_ipc"}}}),
      Row(Metric::kKvPairs, MetricType::kGauge, kPrefillOwns, "baton_kv_pairs",
          "Decode workers that blocks can be sent to from device to device now."),
      Row(Metric::kKvPairEvents, counter, kWorkersOwn, "baton_kv_pair_events_total",
          "What happened to pairs of devices. built, rebuilt: a communicator is ready, the first "
          "or a later one of its pair; aborted: an epoch ended by an error or a deadline; "
          "fallen_back: pushes of the pair go by gRPC for a while; refused: the other side has "
          "no pair for us; closed: idle, displaced, or the other side left; discarded (prefill): "
          "the decode worker "
          "had no place for a parcel and the rest of its push goes by gRPC; device_lost: a call "
          "into the library did not come back.",
          {{"event",
            {"built", "rebuilt", "aborted", "fallen_back", "closed", "refused", "discarded",
             "device_lost"}}}),
      Row(Metric::kKvPairBytes, counter, kWorkersOwn, "baton_kv_pair_bytes_total",
          "Bytes of parcels granted (prefill) or received (decode) between devices, headers "
          "included."),
  };
  MetricInfo wait = Row(Metric::kKvPairGrantWait, MetricType::kHistogram, kPrefillOwns,
                        "baton_kv_pair_grant_wait_seconds",
                        "From the announcement of a parcel until the decode worker granted it.");
  wait.buckets = ShortTimeBuckets();
  rows.push_back(std::move(wait));
  return rows;
}

}  // namespace

std::vector<MetricInfo> KvMetrics() {
  std::vector<MetricInfo> rows = CacheMetrics();
  for (MetricInfo& row : SwapMetrics()) rows.push_back(std::move(row));
  MetricInfo duration = Row(
      Metric::kKvTransferDuration, MetricType::kHistogram, kWorkersOwn,
      "baton_kv_transfer_duration_seconds",
      "reserve: from asking for blocks to getting them, at the decode worker; send: from the "
      "first blocks, while later chunks of the prompt are computed, to the commit, 0 where none "
      "had to be sent; ack: from the commit to its answer, at the prefill worker.",
      {{"stage", {"reserve", "send", "ack"}}});
  duration.buckets = ShortTimeBuckets();
  rows.push_back(std::move(duration));
  MetricInfo bytes = Row(Metric::kKvTransferBytes, MetricType::kHistogram, kPrefillOwns,
                         "baton_kv_transfer_bytes", "Bytes of KV sent in one committed handoff.");
  bytes.buckets = TransferByteBuckets();
  rows.push_back(std::move(bytes));
  rows.push_back(
      Row(Metric::kKvTransferFailures, MetricType::kCounter, kWorkersOwn,
          "baton_kv_transfer_failures_total",
          "Handoffs that failed, and not those that ended with their request. The sender "
          "counts all, the receiver those that it refused; other: what it got was "
          "damaged or out of step.",
          {{"side", {"sender", "receiver"}},
           {"reason",
            {"UNKNOWN_TICKET", "EXPIRED", "REVOKED", "LAYOUT_MISMATCH", "PUSH_FAILED",
             "DEVICE_FAULT", "other"}}}));
  rows.push_back(Row(Metric::kReservationsExpired, MetricType::kCounter, kDecodeOwns,
                     "baton_reservations_expired_total",
                     "Reservations that ended because their push showed no sign of life."));
  rows.push_back(
      Row(Metric::kKvTransferNumericsMismatch, MetricType::kCounter, kDecodeOwns,
          "baton_kv_transfer_numerics_mismatch_total",
          "Accepted pushes whose sender named other numerics than this worker's, so that "
          "tokens may differ from a run on equal ones."));
  for (MetricInfo& row : PairMetrics()) rows.push_back(std::move(row));
  rows.push_back(Row(Metric::kPdDecision, MetricType::kCounter, kRouterOwns,
                     "baton_pd_decision_total",
                     "Attempts whose prompt a prefill worker computes (split), or the decode "
                     "worker itself (local).",
                     {{"decision", {"split", "local"}}}));
  rows.push_back(Row(
      Metric::kPdReason, MetricType::kCounter, kRouterOwns, "baton_pd_reason_total",
      "The same attempts by why. length: --local-prefill-below N; no_prefill: no prefill worker "
      "serves; beside: a further answer goes where its prompt is; unknown: too little was observed "
      "to reckon with; by estimated cost, what spoke "
      "the most for the choice: wait, for prompts before it; compute, of what is not cached; "
      "transfer, of the KV cache; others, who would have waited.",
      {{"decision", {"split", "local"}},
       {"reason",
        {"length", "no_prefill", "beside", "unknown", "wait", "compute", "transfer", "others"}}}));
  return rows;
}

}  // namespace baton
