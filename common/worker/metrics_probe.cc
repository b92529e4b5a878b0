#include "common/worker/metrics_probe.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "spdlog/spdlog.h"

namespace baton {
namespace {

constexpr auto kHalfLife = std::chrono::seconds(5);
// With fewer per second of late ones there is no mean of them to tell.
constexpr double kFewestSteps = 0.01;

std::string StageOf(SequenceState state) { return std::string(SequenceStateName(state)); }

bool IsStage(SequenceState state) {
  return state != SequenceState::kDone && state != SequenceState::kFailed;
}

std::string WayName(PushWay way) {
  switch (way) {
    case PushWay::kGrpc:
      return "grpc";
    case PushWay::kNccl:
      return "nccl";
    case PushWay::kCudaIpc:
      break;
  }
  return "cuda_ipc";
}

std::string EventName(PairEvent event) {
  switch (event) {
    case PairEvent::kBuilt:
      return "built";
    case PairEvent::kRebuilt:
      return "rebuilt";
    case PairEvent::kAborted:
      return "aborted";
    case PairEvent::kFallenBack:
      return "fallen_back";
    case PairEvent::kClosed:
      return "closed";
    case PairEvent::kRefused:
      return "refused";
    case PairEvent::kDiscarded:
      return "discarded";
    case PairEvent::kDeviceLost:
      break;
  }
  return "device_lost";
}

// Of ten equal bins, by their upper ends: "0.1", …, "1.0".
std::string BinOf(float chance) {
  const int bin = std::clamp(static_cast<int>(std::ceil(chance * 10)), 1, 10);
  return bin == 10 ? "1.0" : "0." + std::to_string(bin);
}

// Of an estimate that is judged.
std::string OutcomeName(EndOutcome outcome) {
  if (outcome == EndOutcome::kUnknown) return "unknown";
  return outcome == EndOutcome::kEnded ? "ended" : "went_on";
}

// Cached blocks that nobody uses count as free.
double UsageOf(const EngineFigures& figures) {
  const int32_t busy = figures.blocks_used + figures.blocks_quarantined;
  return figures.blocks_total > 0 ? 1.0 * busy / figures.blocks_total : 0;
}

}  // namespace

LoadTotals LoadOf(const EngineFigures& figures) {
  return {.running = figures.running,
          .waiting = figures.waiting + figures.reserved,
          .prompt_tokens = figures.prompt_tokens_computed + figures.prompt_tokens_cached +
                           figures.prompt_tokens_received,
          .generated_tokens = figures.generated_tokens,
          .cache = LoadTotals::Cache{.usage = UsageOf(figures),
                                     .queries = figures.prefix_queries,
                                     .hits = figures.prefix_hits}};
}

MetricsProbe::MetricsProbe(MetricsRegistry* registry, const WorkModel& work,
                           const base::Clock* clock)
    : registry_(registry),
      work_(work),
      clock_(clock),
      flops_(kHalfLife, clock->Now()),
      bytes_(kHalfLife, clock->Now()),
      decode_steps_(kHalfLife, clock->Now()),
      decode_seconds_(kHalfLife, clock->Now()) {
  registry_->OnScrape([this] {
    ScrapeUtilization();
    ScrapeDecodeStep();
  });
}

void MetricsProbe::Observe(const Engine* engine) {
  engine_ = engine;
  registry_->OnScrape([this] { Scrape(engine_->figures()); });
}

void MetricsProbe::SequenceAdmitted() {
  registry_->gauge(Metric::kNumRequestsInStage, {"queued"}).Increment();
}

void MetricsProbe::StateChanged(SequenceState from, SequenceState to) {
  registry_->counter(Metric::kStageTransitions, {StageOf(from), StageOf(to)}).Increment();
  registry_->gauge(Metric::kNumRequestsInStage, {StageOf(from)}).Decrement();
  if (IsStage(to)) registry_->gauge(Metric::kNumRequestsInStage, {StageOf(to)}).Increment();
}

void MetricsProbe::StepDone(const StepEvent& step) {
  const bool prefill = step.prefill_sequences > 0;
  const bool decode = step.decode_sequences > 0;
  const std::string phase = prefill && decode ? "mixed" : prefill ? "prefill" : "decode";
  registry_->histogram(Metric::kIterationTokens).Observe(step.prefill_tokens + step.decode_tokens);
  registry_->histogram(Metric::kIterationDuration, {phase}).Observe(base::Seconds(step.duration));
  if (prefill) {
    registry_->histogram(Metric::kBatchSize, {"prefill"}).Observe(step.prefill_sequences);
  }
  if (decode) {
    registry_->histogram(Metric::kBatchSize, {"decode"}).Observe(step.decode_sequences);
  }
  if (step.predicting > base::Duration::zero()) {
    registry_->histogram(Metric::kEndPredictionDuration).Observe(base::Seconds(step.predicting));
  }
  NoteWork(step);
}

void MetricsProbe::ScrapeDecodeStep() {
  const base::Instant now = clock_->Now();
  base::MutexLock lock(&mutex_);
  const double steps = decode_steps_.PerSecond(now);
  registry_->gauge(Metric::kDecodeStepDuration)
      .Set(steps > kFewestSteps ? decode_seconds_.PerSecond(now) / steps : 0);
}

void MetricsProbe::PredictorChosen(PredictorKind kind, const std::string& version) {
  registry_->gauge(Metric::kPredictorInfo, {std::string(PredictorKindName(kind)), version}).Set(1);
}

void MetricsProbe::NoteScore(const EndScore& score) {
  std::string horizon = "beyond";
  for (size_t i = 0; i < kEndHorizons.size(); ++i) {
    const std::string name = std::to_string(kEndHorizons[i]);
    if (horizon == "beyond" && score.remaining <= kEndHorizons[i]) horizon = name;
    if (score.outcomes[i] == EndOutcome::kNotJudged) continue;
    registry_
        ->counter(Metric::kEndPredictionCalibration,
                  {name, BinOf(score.estimate.p_within[i]), OutcomeName(score.outcomes[i])})
        .Increment();
  }
  if (score.remaining == 0) return;
  registry_->histogram(Metric::kEndPredictionError, {horizon})
      .Observe(std::abs(score.estimate.expected_remaining - static_cast<float>(score.remaining)));
}

void MetricsProbe::NoteWork(const StepEvent& step) {
  const double flops = step.prefill_tokens * work_.prefill_flops_per_token +
                       step.decode_tokens * work_.decode_flops_per_token;
  double bytes = work_.weight_bytes;
  if (step.decode_sequences > 0 && engine_ != nullptr) {
    bytes += engine_->figures().blocks_used * work_.block_bytes;
  }
  const base::Instant now = clock_->Now();
  base::MutexLock lock(&mutex_);
  flops_.Add(flops, now);
  bytes_.Add(bytes, now);
  if (step.decode_sequences == 0) return;
  decode_steps_.Add(1, now);
  decode_seconds_.Add(base::Seconds(step.duration), now);
}

void MetricsProbe::SequenceFinished(const FinishedEvent& event) {
  for (const EndScore& score : event.end_scores) NoteScore(score);
  const double prefill = base::Seconds(event.prefill_time);
  const double decode = base::Seconds(event.decode_time);
  WatchSpecial(event);
  registry_->histogram(Metric::kRequestQueueTime).Observe(base::Seconds(event.queue_time));
  if (prefill > 0) registry_->histogram(Metric::kRequestPrefillTime).Observe(prefill);
  if (decode > 0) registry_->histogram(Metric::kRequestDecodeTime).Observe(decode);
  if (prefill + decode > 0) {
    registry_->histogram(Metric::kRequestInferenceTime).Observe(prefill + decode);
  }
}

void MetricsProbe::TokenSampled(const SampledToken& token, EosPolicy policy) {
  if (std::isnan(token.eos.eos_logprob)) return;  // the model has no EOS
  registry_->histogram(Metric::kEosStepProbability).Observe(std::exp(token.eos.eos_logprob));
  if (policy != EosPolicy::kHonor && token.eos.eos_rank == 1) {
    registry_->counter(Metric::kEosIgnoredSteps).Increment();
  }
}

void MetricsProbe::RanAway(bool ends) {
  registry_->counter(Metric::kRunaway, {ends ? "end" : "warn"}).Increment();
}

void MetricsProbe::WatchStopSet(std::map<TokenId, std::string> special_tokens) {
  base::MutexLock lock(&mutex_);
  special_tokens_ = std::move(special_tokens);
}

void MetricsProbe::WatchSpecial(const FinishedEvent& event) {
  if (event.passed_special) registry_->counter(Metric::kPassedSpecialTokens).Increment();
  base::MutexLock lock(&mutex_);
  const auto suspect = stop_set_.Take(event.reason, event.passed_special);
  if (!suspect) return;
  spdlog::warn(
      "{} answers went on behind the special token {} '{}' where a sentence had ended, and {} of "
      "them ended by EOS: it may be what ends answers of this model; if it is, add {} to "
      "eos_token_id in generation_config.json, or to the requests' stop_token_ids",
      suspect->answers, suspect->id, special_tokens_[suspect->id], suspect->ended_by_eos,
      suspect->id);
}

void MetricsProbe::StoppedByEos(const EosSignal& signal) {
  registry_->histogram(Metric::kEosProbabilityAtStop).Observe(std::exp(signal.eos_logprob));
}

void MetricsProbe::ReservationGranted(base::Duration waited) {
  registry_->histogram(Metric::kKvTransferDuration, {"reserve"}).Observe(base::Seconds(waited));
}

void MetricsProbe::ReservationExpired() {
  registry_->counter(Metric::kReservationsExpired).Increment();
}

void MetricsProbe::PushDone(int64_t bytes, base::Duration sending, base::Duration committing) {
  registry_->histogram(Metric::kKvTransferDuration, {"send"}).Observe(base::Seconds(sending));
  registry_->histogram(Metric::kKvTransferDuration, {"ack"}).Observe(base::Seconds(committing));
  registry_->histogram(Metric::kKvTransferBytes).Observe(static_cast<double>(bytes));
}

void MetricsProbe::PushFailed(Reason reason) { CountFailure("sender", reason); }
void MetricsProbe::PushRefused(Reason reason) { CountFailure("receiver", reason); }

void MetricsProbe::PushFromOtherNumerics() {
  registry_->counter(Metric::kKvTransferNumericsMismatch).Increment();
}

void MetricsProbe::RoleTaken(WorkerRole role) {
  for (const WorkerRole each : {WorkerRole::kPrefill, WorkerRole::kDecode}) {
    registry_->gauge(Metric::kWorkerTakes, {std::string(WorkerRoleName(each))})
        .Set(each == role ? 1 : 0);
  }
}

void MetricsProbe::RoleChanged(WorkerRole to, RoleReason reason) {
  registry_
      ->counter(Metric::kRoleChanges,
                {std::string(WorkerRoleName(to)), std::string(RoleReasonName(reason))})
      .Increment();
}

void MetricsProbe::RoleLooked(const RoleSignals& signals) {
  registry_->gauge(Metric::kRolePromptWait).Set(signals.prompt_wait_s);
  registry_->gauge(Metric::kRolePrefillLoad).Set(signals.prefill_load);
  registry_->gauge(Metric::kRoleDecodeFill).Set(signals.decode_fill);
}

void MetricsProbe::CountFailure(const std::string& side, Reason reason) {
  // Reasons without a name of their own, such as a broken stream, are counted under "other".
  const std::string name = reason == Reason::kNone ? "other" : std::string(ReasonName(reason));
  registry_->counter(Metric::kKvTransferFailures, {side, name}).Increment();
}

void MetricsProbe::ScrapeDraft(const DraftFigures& f) {
  const auto raise = [this](Metric metric, double total) {
    MetricsRegistry::AdvanceTo(&registry_->counter(metric), total);
  };
  raise(Metric::kSpecDecodeDraftSteps, static_cast<double>(f.steps));
  raise(Metric::kSpecDecodeDraftFedTokens, static_cast<double>(f.tokens));
  raise(Metric::kSpecDecodeDraftTime, f.seconds);
  raise(Metric::kSpecDecodeDraftDropped, static_cast<double>(f.dropped));
  registry_->gauge(Metric::kSpecDecodeDraftKvUsage)
      .Set(static_cast<double>(f.blocks_used) / f.blocks_total);
}

void MetricsProbe::ScrapeSwaps(const EngineFigures& f) {
  const auto raise = [this](Metric metric, double total, const std::string& label) {
    MetricsRegistry::AdvanceTo(&registry_->counter(metric, {label}), total);
  };
  const auto out = static_cast<double>(f.blocks_swapped_out);
  const auto in = static_cast<double>(f.blocks_swapped_in);
  raise(Metric::kSwapBlocks, out, "out");
  raise(Metric::kSwapBlocks, in, "in");
  raise(Metric::kSwapBytes, out * work_.block_bytes, "out");
  raise(Metric::kSwapBytes, in * work_.block_bytes, "in");
  raise(Metric::kSwapMisses, static_cast<double>(f.swaps_without_room), "full");
  raise(Metric::kSwapMisses, static_cast<double>(f.swaps_lost), "lost");
  registry_->gauge(Metric::kSwapSpaceUsage)
      .Set(static_cast<double>(f.swap_blocks_used) / f.swap_blocks_total);
}

void MetricsProbe::Scrape(const EngineFigures& f) {
  const auto set = [this](Metric metric, double value, const MetricsRegistry::Labels& labels = {}) {
    registry_->gauge(metric, labels).Set(value);
  };
  const auto raise = [this](Metric metric, uint64_t total,
                            const MetricsRegistry::Labels& labels = {}) {
    MetricsRegistry::AdvanceTo(&registry_->counter(metric, labels), static_cast<double>(total));
  };
  set(Metric::kNumRequestsRunning, f.running);
  set(Metric::kNumRequestsWaiting, f.waiting + f.reserved);
  set(Metric::kNumRequestsWaitingByReason, f.waiting, {"capacity"});
  set(Metric::kNumRequestsWaitingByReason, f.reserved, {"transfer"});
  raise(Metric::kNumPreemptions, f.preemptions);
  raise(Metric::kPreemptionsByWay, f.preemptions - f.swaps, {"recompute"});
  raise(Metric::kPreemptionsByWay, f.swaps, {"swap"});
  if (f.swap_blocks_total > 0) ScrapeSwaps(f);
  raise(Metric::kStepsOverlapped, f.steps_overlapped);
  raise(Metric::kSequencesNotFinite, f.ends_not_finite);
  raise(Metric::kSpecDecodeNumDrafts, f.rows_proposed);
  raise(Metric::kSpecDecodeNumDraftTokens, f.ids_proposed);
  raise(Metric::kSpecDecodeNumAcceptedTokens, f.ids_accepted);
  for (size_t i = 0; i < f.accepted_at.size(); ++i) {
    raise(Metric::kSpecDecodeNumAcceptedTokensPerPos, f.accepted_at[i], {std::to_string(i)});
  }
  if (f.draft.blocks_total > 0) ScrapeDraft(f.draft);
  raise(Metric::kGuideForcedTokens, f.ids_forced);
  raise(Metric::kGuideJumpedTokens, f.ids_jumped);
  raise(Metric::kPromptTokensBySource, f.prompt_tokens_computed, {"local_compute"});
  raise(Metric::kPromptTokensBySource, f.prompt_tokens_cached, {"local_cache_hit"});
  raise(Metric::kPromptTokensBySource, f.prompt_tokens_received, {"external_kv_transfer"});
  set(Metric::kPredictedRemainingTokens, f.expected_tokens);
  set(Metric::kPredictedKvReadTokens, f.expected_kv_tokens);
  set(Metric::kKvCacheUsage, UsageOf(f));
  set(Metric::kKvBlocks, f.blocks_free, {"free"});
  set(Metric::kKvBlocks, f.blocks_cached, {"cached"});
  set(Metric::kKvBlocks, f.blocks_quarantined, {"quarantined"});
  set(Metric::kKvBlocks, f.blocks_used, {"used"});
  raise(Metric::kPrefixCacheQueries, f.prefix_queries);
  raise(Metric::kPrefixCacheHits, f.prefix_hits);
  raise(Metric::kKvEvictedBlocks, f.evicted_blocks, {"capacity"});
}

void MetricsProbe::ScrapeUtilization() {
  const base::Instant now = clock_->Now();
  base::MutexLock lock(&mutex_);
  if (work_.peak_flops_per_s > 0) {
    registry_->gauge(Metric::kModelFlopsUtilization)
        .Set(flops_.PerSecond(now) / work_.peak_flops_per_s);
  }
  if (work_.peak_read_bytes_per_s > 0) {
    registry_->gauge(Metric::kMemoryBandwidthUtilization)
        .Set(bytes_.PerSecond(now) / work_.peak_read_bytes_per_s);
  }
}

void MetricsProbe::PushOpened(PushWay way) {
  registry_->counter(Metric::kKvPushes, {WayName(way)}).Increment();
}

void MetricsProbe::PairHappened(PairEvent event) {
  registry_->counter(Metric::kKvPairEvents, {EventName(event)}).Increment();
}

void MetricsProbe::GrantWaited(base::Duration waited) {
  registry_->histogram(Metric::kKvPairGrantWait).Observe(base::Seconds(waited));
}

void MetricsProbe::PairBytes(int64_t bytes) {
  registry_->counter(Metric::kKvPairBytes).Increment(static_cast<double>(bytes));
}

}  // namespace baton
