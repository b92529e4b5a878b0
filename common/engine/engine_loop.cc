#include "common/engine/engine_loop.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/engine/async_runner.h"
#include "common/engine/check_options.h"
#include "common/engine/ngram_source.h"

namespace baton {
namespace {

constexpr size_t kEventCapacity = 4096;

// An idle engine looks at its deadlines this often: `clock` may be a test's, which wakes nobody.
constexpr auto kIdlePoll = std::chrono::milliseconds(20);

SequenceLimits LimitsOf(const EngineOptions& options, const KvCache& kv) {
  const int64_t pool_tokens = int64_t{kv.num_blocks()} * kv.layout().block_size;
  return {.max_model_len = options.max_model_len,
          .pool_tokens = static_cast<int32_t>(
              std::min<int64_t>(pool_tokens, std::numeric_limits<int32_t>::max())),
          .vocab_size = options.vocab_size,
          .block_size = kv.layout().block_size,
          .max_beams = std::min(options.max_num_seqs, options.max_num_batched_tokens),
          .eos_ids = options.eos_ids};
}

SchedulerOptions SchedulerOptionsOf(const EngineOptions& options, const KvCache& kv) {
  return {.limits = LimitsOf(options, kv),
          .block_size = kv.layout().block_size,
          .max_num_seqs = options.max_num_seqs,
          .max_prefill_tokens = options.max_prefill_tokens,
          .max_num_batched_tokens = options.max_num_batched_tokens,
          .max_steps_in_flight = options.overlap ? 2 : 1,
          .max_draws = MaxDraws(options.max_num_seqs, options.proposals, options.jump_forward),
          .proposals = options.proposals,
          .jump_forward = options.jump_forward,
          // Survival learns from lengths, whereas files say what they do by signals.
          .measures_forced =
              options.predictor != nullptr && options.predictor->kind() != PredictorKind::kLearnt,
          .prefill_batch_wait = options.prefill_batch_wait,
          .policy = options.policy,
          .eos_ids = options.eos_ids,
          .token_boundaries = options.token_boundaries,
          .special_ids = options.special_ids,
          .runaway = options.runaway};
}

absl::Status BrokenDraws() {
  return absl::InternalError(absl::StrCat(
      "the logits of ", DrawHealth::kMostSpoilt,
      " prompts and then of one token of the engine's own were not finite numbers, and "
      "no others came between; the weights or the device are broken, or the weights' "
      "numbers are too large for the dtype"));
}

absl::Status DeviceFault(std::string_view what) {
  return MakeError(absl::StatusCode::kUnavailable, {.reason = Reason::kDeviceFault}, what);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> Engine::Start(const EngineOptions& options,
                                                      const KvCache& kv,
                                                      std::unique_ptr<ModelRunner> runner,
                                                      const base::Clock* clock) {
  BATON_RETURN_IF_ERROR(CheckEngineOptions(options, kv));
  if (options.overlap && runner->max_in_flight() < 2) {
    runner = std::make_unique<AsyncRunner>(std::move(runner));
  }
  return std::make_unique<EngineLoop>(options, kv, std::move(runner), clock);
}

EngineLoop::EngineLoop(const EngineOptions& options, const KvCache& kv,
                       std::unique_ptr<ModelRunner> runner, const base::Clock* clock)
    : options_(options),
      clock_(clock),
      kv_(kv),
      runner_(std::move(runner)),
      gate_(LimitsOf(options, kv), int64_t{options.max_num_queued_reqs} + options.policy.line()),
      sink_(kEventCapacity),
      journal_(options.enable_prefix_caching ? kv.num_blocks() : 0),
      pool_(kv.num_blocks()),
      host_pool_(options.swap_blocks),
      cache_(
          options.enable_prefix_caching
              ? std::make_unique<PrefixCache>(&pool_, kv.layout().block_size, &HashBlock, &journal_)
              : nullptr),
      scheduler_(SchedulerOptionsOf(options, kv), &pool_, cache_.get(),
                 options.swap_blocks > 0 ? &host_pool_ : nullptr),
      foresight_(options.predictor),
      self_test_(options),
      source_(options.proposals_from) {
  if (options.proposals.most > 0 && source_ == nullptr) {
    own_source_ = std::make_unique<NgramSource>(options.proposal_ngrams, options.proposals.most);
    source_ = own_source_.get();
  }
  figures_ = Snapshot();
  watchdog_ = std::make_unique<Watchdog>(
      [this] { return OperationsFinished(); }, clock_, options_.stall_timeout,
      [this] {
        Fail(DeviceFault(absl::StrCat("neither a step nor the work between steps got on for ",
                                      base::Seconds(options_.stall_timeout),
                                      " s; the worker must be restarted")));
      });
  thread_ = std::thread([this] { Run(); });
}

EngineLoop::~EngineLoop() { Stop(); }

absl::StatusOr<SequenceId> EngineLoop::Admit(SequenceSpec spec) {
  return gate_.Admit(std::move(spec));
}
void EngineLoop::CommitImport(SequenceId sequence, SampledToken first) {
  gate_.CommitImport(sequence, std::move(first));
}
void EngineLoop::Cancel(SequenceId sequence) { gate_.Cancel(sequence); }
void EngineLoop::ReturnLease(SequenceId sequence) { gate_.ReturnLease(sequence); }
void EngineLoop::Drain() { gate_.Drain(); }

void EngineLoop::Stop() {
  gate_.Close(MakeError(absl::StatusCode::kUnavailable, {.reason = Reason::kDraining},
                        "the worker is shutting down; try another worker"));
  sink_.Hurry();
  base::MutexLock lock(&stop_mutex_);
  if (!thread_.joinable()) return;
  thread_.join();
  watchdog_.reset();
  sink_.Close();
}

void EngineLoop::Run() {
  bool idle = false;
  while (TakeCommands(idle)) {
    const base::Instant now = clock_->Now();
    scheduler_.ExpireAt(now);
    const bool prepared = Propose();
    const base::Duration preparing = prepared ? clock_->Now() - now : base::Duration{};
    TellSwapCosts();
    planned_at_ = now;
    StepPlan plan = scheduler_.Plan(now);
    watchdog_->Works();
    const bool changed = PublishAndEmit();
    const bool planned = !plan.empty();
    // What was computed for a step is a part of its time.
    if (planned && !Submit(std::move(plan), clock_->Now() - preparing)) break;
    const size_t room = planned && options_.overlap ? 1 : 0;  // for one more before this one ends
    // Whoever was let in by this plan may have something to be read ahead.
    const bool more = prepared || (changed && source_ != nullptr && source_->prepares());
    idle = in_flight_.empty() && !more;
    if (in_flight_.size() > room && !FinishStep()) break;
  }
  while (!in_flight_.empty()) FinishStep();
  EndAll();
  watchdog_->Rests();
}

bool EngineLoop::TakeCommands(bool idle) {
  std::optional<Command> command;
  if (idle) {
    // What the last plan put off may be due by now.
    const base::Instant wake = scheduler_.NextWake(planned_at_);
    const base::Duration wait = std::min<base::Duration>(wake - clock_->Now(), kIdlePoll);
    watchdog_->Rests();
    command = gate_.PopUntil(wake == base::kNever ? base::kNever
                                                  : std::chrono::steady_clock::now() + wait);
  } else {
    command = gate_.TryPop();
  }
  watchdog_->Works();
  for (; command; command = gate_.TryPop()) {
    Apply(std::move(*command));
    watchdog_->Works();
  }
  return !gate_.closed();
}

void EngineLoop::Apply(Command command) {
  const base::Instant now = clock_->Now();
  switch (command.kind) {
    case Command::Kind::kAdd:
      return AddSequence(std::move(command), now);
    case Command::Kind::kCommitImport:
      foresight_.TakeFirst(command.sequence, &command.first);
      return scheduler_.CommitImport(command.sequence, std::move(command.first), now);
    case Command::Kind::kCancel:
      return scheduler_.Cancel(command.sequence, now);
    case Command::Kind::kReturnLease:
      return scheduler_.ReturnLease(command.sequence);
  }
}

void EngineLoop::AddSequence(Command command, base::Instant now) {
  ++added_;
  std::optional<EndEstimate> prior;
  if (!self_test_.Owns(command.sequence)) {  // nobody is to learn from its end
    prior = foresight_.Begin(command.sequence, command.spec);
  }
  if (source_ != nullptr) source_->Begin(command.sequence, command.spec);
  scheduler_.Add(command.sequence, std::move(command.spec), now);
  scheduler_.Foresee(command.sequence, prior);
}

void EngineLoop::TellSwapCosts() {
  if (options_.swap_blocks == 0) return;
  SwapCosts costs = options_.swap_costs;
  if (const double measured = step_times_.prompt_token_s(); measured > 0) costs.token_s = measured;
  scheduler_.set_swap_costs(costs);
}

bool EngineLoop::Propose() {
  if (source_ == nullptr) return false;
  const bool prepared = source_->prepares() && source_->Prepare(scheduler_.Proposable());
  watchdog_->Works();
  scheduler_.Propose([this](const ProposalRequest& asked) { return source_->Propose(asked); });
  return prepared;
}

base::Duration EngineLoop::Foresee(const StepPlan& plan, StepOutput* output) {
  if (options_.predictor == nullptr) return {};
  const auto begin = std::chrono::steady_clock::now();
  foresight_.Take(plan, output);
  return std::chrono::steady_clock::now() - begin;
}

bool EngineLoop::Submit(StepPlan plan, base::Instant begin) {
  if (!in_flight_.empty()) ++steps_overlapped_;
  in_flight_.push_back({std::move(plan), begin});
  watchdog_->Works();
  base::Failpoint("stepping", in_flight_.back().plan.num_tokens);
  const absl::Status submitted = runner_->Submit(in_flight_.back().plan);
  watchdog_->Works();
  if (submitted.ok()) return true;
  FailStep(in_flight_.back().plan, submitted);
  in_flight_.pop_back();
  return false;
}

bool EngineLoop::FinishStep() {
  watchdog_->Works();
  absl::StatusOr<StepOutput> output = runner_->Wait();
  watchdog_->Works();
  const base::Instant end = clock_->Now();
  const InFlight step = std::move(in_flight_.front());
  in_flight_.pop_front();
  if (!output.ok() && healthy_) FailStep(step.plan, output.status());
  if (!healthy_) return false;
  ++steps_;
  const base::Duration predicting = Foresee(step.plan, &*output);
  if (!options_.tells_products) {
    for (SampledToken& token : output->samples) token.probe.clear();
  }
  scheduler_.Commit(step.plan, *output, end);
  watchdog_->Works();
  const StepShape& shape = step.plan.shape;
  const base::Duration took = end - std::max(step.begin, last_end_);
  // What copies blocks says little of what tokens take.
  if (!step.plan.swaps()) step_times_.Note(shape, took);
  PublishAndEmit();
  Emit(StepEvent{.at = end,
                 .duration = took,
                 .prefill_tokens = shape.prefill_tokens,
                 .decode_tokens = shape.decode_tokens,
                 .prefill_sequences = shape.prefill_sequences,
                 .decode_sequences = shape.decode_sequences,
                 .predicting = predicting});
  last_end_ = end;
  JudgeDevice(step.plan);
  return healthy_;
}

void EngineLoop::JudgeDevice(const StepPlan& plan) {
  const bool failed = self_test_.TakeFailure();
  if (!scheduler_.draw_health().suspect()) return;
  if (failed) return FailStep(plan, BrokenDraws());
  if (!self_test_.runs()) self_test_.Begin(gate_.AdmitOwn(self_test_.Spec()));
}

// Figures first, so that who saw an event sees figures at least as new.
bool EngineLoop::PublishAndEmit() {
  gate_.SetStarted(added_ - static_cast<uint64_t>(scheduler_.num_queued()));
  const std::vector<SequenceId> forgotten = scheduler_.TakeForgotten();
  gate_.Forget(forgotten);
  if (source_ != nullptr) {
    for (const SequenceId id : forgotten) source_->Forget(id);
  }
  {
    base::MutexLock lock(&figures_mutex_);
    figures_ = Snapshot();
  }
  const double unix_now = clock_->UnixNow();
  std::vector<SchedEvent> events = scheduler_.TakeEvents();
  for (SchedEvent& event : events) {
    if (self_test_.Owns(event.sequence)) {
      const auto* state = std::get_if<StateEvent>(&event.what);
      if (state != nullptr && state->from == SequenceState::kQueued) gate_.OwnStarted();
      self_test_.Take(event);
      continue;
    }
    foresight_.Tell(&event);
    Emit(ToEngineEvent(std::move(event), kv_, unix_now));
  }
  return !events.empty();
}

// May wait for the owner, who reads the events.
void EngineLoop::Emit(EngineEvent event) {
  watchdog_->Rests();
  sink_.Emit(std::move(event));
  watchdog_->Works();
}

// Leases that are still out are void: the owner ended its transfers, or ends the process.
void EngineLoop::EndAll() {
  const base::Instant now = clock_->Now();
  for (const SequenceId id : scheduler_.LiveIds()) scheduler_.Cancel(id, now);
  PublishAndEmit();
  for (const SequenceId id : scheduler_.LiveIds()) scheduler_.ReturnLease(id);
  PublishAndEmit();
}

void EngineLoop::FailStep(const StepPlan& plan, const absl::Status& why) {
  Fail(DeviceFault(absl::StrCat("step ", plan.step, " failed: ", why.message())));
}

void EngineLoop::Fail(absl::Status status) {
  healthy_ = false;
  spdlog::error("engine stopped: {}", std::string(status.message()));
  gate_.Close(status);
  sink_.EmitFault(std::move(status));
}

}  // namespace baton
