#include "tools/sim/virtual_worker.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/eos/predict/predictor_file.h"
#include "common/roles/role_view.h"

namespace baton::simulator {
namespace {

constexpr size_t kUseBins = 1001;
// The part of a mean that the newest step has.
constexpr double kNewestStep = 0.05;

std::unique_ptr<EndPredictor> PredictorOf(const WorkerSetup& setup) {
  if (setup.foreseer == Foreseer::kLearnt) {
    return std::make_unique<EndPredictor>(nullptr, setup.token_boundaries);
  }
  if (setup.foreseer != Foreseer::kFile) return nullptr;
  auto file = ReadPredictorFile(setup.predictor_file);
  BATON_CHECK(file.ok()) << std::string(file.status().message());
  return std::make_unique<EndPredictor>(std::make_unique<PredictorFile>(std::move(*file)),
                                        setup.token_boundaries);
}

// How likely the answer ends within so many tokens: between two horizons as if it were as likely at
// each token, and the truth where it is known.
double EndWithin(const EndEstimate& end, double tokens) {
  if (IsSure(end)) return end.p50 <= static_cast<float>(tokens) ? 1 : 0;
  double before = 0, likely_before = 0;
  for (size_t i = 0; i < kEndHorizons.size(); ++i) {
    const auto horizon = static_cast<double>(kEndHorizons[i]);
    const double likely = end.p_within[i];
    if (tokens <= horizon) {
      return likely_before + (likely - likely_before) * (tokens - before) / (horizon - before);
    }
    before = horizon;
    likely_before = likely;
  }
  return likely_before;
}

}  // namespace

VirtualWorker::VirtualWorker(const WorkerSetup& setup, Timeline* timeline,
                             std::span<Request> requests, Hear hear)
    : setup_(setup),
      timeline_(timeline),
      requests_(requests),
      hear_(std::move(hear)),
      predictor_(PredictorOf(setup)),
      foresight_(predictor_.get()),
      pool_(setup.num_blocks),
      host_pool_(setup.swap_blocks),
      journal_(setup.reports_prefixes
                   ? std::make_unique<PrefixJournal>(setup.prefix_caching ? setup.num_blocks : 0)
                   : nullptr),
      cache_(setup.prefix_caching
                 ? std::make_unique<PrefixCache>(&pool_, setup.scheduler.block_size, &HashBlock,
                                                 journal_.get())
                 : nullptr),
      scheduler_(setup.scheduler, &pool_, cache_.get(),
                 setup.swap_blocks > 0 ? &host_pool_ : nullptr),
      kv_use_(kUseBins),
      use_noted_(timeline->now()) {
  if (setup.baseline) reserve_.emplace(setup.baseline->reserve, setup.baseline->number);
}

SequenceId VirtualWorker::Add(uint32_t request, SequenceSpec spec) {
  request_of_.push_back(request);
  const SequenceId id(request_of_.size());
  Send({.kind = Command::Kind::kAdd,
        .sequence = id,
        .spec = std::move(spec),
        .step = 0,
        .first = {}});
  return id;
}

void VirtualWorker::CommitImport(SequenceId sequence, int32_t step, SampledToken first) {
  Send({.kind = Command::Kind::kCommit,
        .sequence = sequence,
        .spec = {},
        .step = step,
        .first = std::move(first)});
}

void VirtualWorker::Cancel(SequenceId sequence) {
  Send({.kind = Command::Kind::kCancel, .sequence = sequence, .spec = {}, .step = 0, .first = {}});
}

void VirtualWorker::ReturnLease(SequenceId sequence) {
  Send({.kind = Command::Kind::kReturnLease,
        .sequence = sequence,
        .spec = {},
        .step = 0,
        .first = {}});
}

// What is said during a turn is taken in the next one, as by the engine's queue.
void VirtualWorker::Send(Command command) {
  commands_.push_back(std::move(command));
  if (commands_.size() == 1 && !waits_for_step_) {
    timeline_->After({}, [this] {
      if (!waits_for_step_) Turn();
    });
  }
}

void VirtualWorker::Turn() {
  const base::Instant now = timeline_->now();
  const size_t most = static_cast<size_t>(setup_.scheduler.max_steps_in_flight);
  while (true) {
    while (!commands_.empty()) {
      Command command = std::move(commands_.front());
      commands_.pop_front();
      Apply(std::move(command));
    }
    scheduler_.ExpireAt(now);
    NoteUse();
    TellSwapCosts();
    StepPlan plan = scheduler_.Plan(now);
    TellEvents();
    const bool planned = !plan.empty();
    if (planned) Submit(std::move(plan));
    if (in_flight_.empty()) break;
    if (planned && in_flight_.size() < most) continue;
    waits_for_step_ = true;
    timeline_->At(in_flight_.front().done, [this] {
      FinishStep();
      Turn();
    });
    return;
  }
  if (!commands_.empty()) {
    timeline_->After({}, [this] {
      if (!waits_for_step_) Turn();
    });
    return;
  }
  WakeAt(scheduler_.NextWake(now));
}

// Looks again at `when`, unless it does so before.
void VirtualWorker::WakeAt(base::Instant when) {
  if (when == base::kNever || wake_ <= when) return;
  wake_ = when;
  timeline_->At(when, [this, when] {
    if (wake_ != when) return;
    wake_ = base::kNever;
    if (!waits_for_step_) Turn();
  });
}

void VirtualWorker::Apply(Command command) {
  const base::Instant now = timeline_->now();
  switch (command.kind) {
    case Command::Kind::kAdd: {
      std::optional<EndEstimate> prior = foresight_.Begin(command.sequence, command.spec);
      if (predictor_ == nullptr) {
        prior = EndBehind(*Of(command.sequence).asked,
                          static_cast<int32_t>(command.spec.generated.size()));
      }
      scheduler_.Add(command.sequence, std::move(command.spec), now);
      return scheduler_.Foresee(command.sequence, prior);
    }
    case Command::Kind::kCommit: {
      foresight_.TakeFirst(command.sequence, &command.first);
      if (predictor_ == nullptr) {
        command.first.end = EndBehind(*Of(command.sequence).asked, command.step);
      }
      return scheduler_.CommitImport(command.sequence, std::move(command.first), now);
    }
    case Command::Kind::kCancel:
      return scheduler_.Cancel(command.sequence, now);
    case Command::Kind::kReturnLease:
      return scheduler_.ReturnLease(command.sequence);
  }
}

// As the engine: by the steps of late, and until there were enough by what is known beforehand.
void VirtualWorker::TellSwapCosts() {
  if (setup_.swap_blocks == 0) return;
  constexpr double kMicro = 1e-6;
  const double measured = step_times_.prompt_token_s();
  scheduler_.set_swap_costs(
      {.out_s = setup_.swap_block_s,
       .in_s = setup_.swap_block_s,
       .token_s = measured > 0 ? measured : kMicro * setup_.cost.prompt_token});
}

void VirtualWorker::Submit(StepPlan plan) {
  const auto copied = static_cast<double>(plan.swaps_out.size() + plan.swaps_in.size());
  const base::Duration time =
      setup_.cost.Of(WorkOf(plan)) +
      base::Duration(static_cast<int64_t>(1e9 * setup_.swap_block_s * copied));
  device_free_ = std::max(device_free_, timeline_->now()) + time;
  ++totals_.steps;
  step_s_ += kNewestStep * (base::Seconds(time) - step_s_);
  totals_.busy += time;
  CountFed(plan);
  in_flight_.push_back({std::move(plan), device_free_, time});
}

void VirtualWorker::CountFed(const StepPlan& plan) {
  totals_.fed += static_cast<uint64_t>(plan.num_tokens);
  for (const StepRow& row : plan.rows) {
    int32_t& computed = Of(row.sequence).computed;
    const int32_t end = row.first_position + row.num_tokens();
    totals_.fed_again +=
        static_cast<uint64_t>(std::max(0, std::min(computed, end) - row.first_position));
    computed = std::max(computed, end);
  }
}

void VirtualWorker::FinishStep() {
  const InFlight step = std::move(in_flight_.front());
  in_flight_.pop_front();
  waits_for_step_ = false;
  if (!step.plan.swaps()) step_times_.Note(step.plan.shape, step.took);
  StepOutput output = OutputOf(step.plan);
  foresight_.Take(step.plan, &output);
  NoteUse();
  scheduler_.Commit(step.plan, output, timeline_->now());
  TellEvents();
}

StepOutput VirtualWorker::OutputOf(const StepPlan& plan) {
  StepOutput output;
  output.samples.reserve(static_cast<size_t>(plan.num_samples));
  for (const StepRow& row : plan.rows) {
    const SimRequest& asked = *Of(row.sequence).asked;
    for (const kernels::SampleRow& draw : row.draws) {
      const int32_t step = SampleStep(draw);
      output.samples.push_back(AnswerAt(asked, step, setup_.forced_lengths));
      if (predictor_ == nullptr) output.samples.back().end = EndBehind(asked, step);
    }
  }
  return output;
}

std::optional<EndEstimate> VirtualWorker::EndBehind(const SimRequest& asked, int32_t step) const {
  if (setup_.foreseer == Foreseer::kOracle) return OracleEnd(asked, step);
  return reserve_ ? reserve_->Behind(step) : std::nullopt;
}

void VirtualWorker::TellEvents() {
  for (SchedEvent& event : scheduler_.TakeEvents()) {
    foresight_.Tell(&event);
    const auto* const finished = std::get_if<FinishedEvent>(&event.what);
    if (reserve_ && finished != nullptr && finished->reason == FinishReason::kStopEos) {
      reserve_->Ended(finished->generated_tokens);
    }
    hear_(request_of_[event.sequence.value() - 1], event.sequence, event);
  }
  scheduler_.TakeForgotten();
}

double VirtualWorker::EndsWithin(double seconds) const {
  const double steps = step_s_ > 0 ? seconds / step_s_ : 0;
  double ends = 0;
  scheduler_.Visit([&](const LiveSequence& sequence) {
    if (sequence.state != SequenceState::kDecoding) return;
    if (const auto end = sequence.expected_end()) ends += EndWithin(*end, steps);
  });
  return ends;
}

PromptTimes VirtualWorker::prompt_times() const {
  return {.step_s = step_times_.step_s(),
          .token_s = step_times_.prompt_token_s(),
          .step_tokens = std::min(setup_.scheduler.max_prefill_tokens,
                                  setup_.scheduler.max_num_batched_tokens)};
}

double VirtualWorker::fill(const SchedulerFigures& figures) const {
  return FillOf({.sequences = figures.seats,
                 .seats = setup_.scheduler.max_num_seqs,
                 .blocks_used = pool_.num_used() + pool_.num_quarantined(),
                 .blocks_total = pool_.total(),
                 .block_size = setup_.scheduler.block_size,
                 .expected_tokens = figures.expected_tokens});
}

PlaceCapacity VirtualWorker::capacity(const SchedulerFigures& figures) const {
  return {.places = figures.places,
          .short_of_blocks = figures.short_of_blocks,
          .seats = setup_.scheduler.max_num_seqs,
          .ended = figures.ended,
          .step_prompt_tokens = std::min(setup_.scheduler.max_prefill_tokens,
                                         setup_.scheduler.max_num_batched_tokens)};
}

void VirtualWorker::NoteUse() {
  const base::Duration length = timeline_->now() - use_noted_;
  if (length == base::Duration::zero()) return;
  const int64_t used = pool_.num_used() + pool_.num_quarantined();
  const int64_t all = std::max(1, pool_.total());
  kv_use_[static_cast<size_t>(1000 * used / all)] += base::Milliseconds(length);
  kv_use_over_time_.Add(length, static_cast<double>(used) / static_cast<double>(all));
  use_noted_ = timeline_->now();
}

const std::vector<double>& VirtualWorker::kv_use() {
  NoteUse();
  return kv_use_;
}

const SpanMeans& VirtualWorker::kv_use_over_time() {
  NoteUse();
  return kv_use_over_time_;
}

std::string VirtualWorker::CheckEmpty() const {
  if (scheduler_.live() > 0) return absl::StrCat(scheduler_.live(), " sequences are left");
  if (pool_.num_used() > 0 || pool_.num_quarantined() > 0) {
    return absl::StrCat(pool_.num_used(), " blocks are in use and ", pool_.num_quarantined(),
                        " in quarantine with no sequence left");
  }
  if (host_pool_.num_used() > 0) {
    return absl::StrCat(host_pool_.num_used(), " blocks of the swap space are in use with no ",
                        "sequence left");
  }
  return pool_.IsConsistent() ? "" : "the pool's counts contradict its blocks";
}

}  // namespace baton::simulator
