#include "tests/sim/sim_worker.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace baton::sim {
namespace {

constexpr int32_t kVocab = 500;

FakeModelOptions DeviceOf(const WorkerOptions& options, FakeModelOptions model) {
  model.max_in_flight = options.scheduler.max_steps_in_flight;
  model.lazy = options.lazy_device;
  return model;
}

struct Use {
  const LiveSequence* owner;
  int32_t ordinal;
};

// Two sequences may share a block only as the same proven prefix of the same tenant.
std::string CheckShared(const Use& a, const Use& b, int32_t block_size) {
  const auto end = static_cast<size_t>((a.ordinal + 1) * block_size);
  const bool proven = a.owner->computed >= static_cast<int32_t>(end) &&
                      b.owner->computed >= static_cast<int32_t>(end);
  const bool same =
      a.ordinal == b.ordinal && proven && a.owner->spec.cache_salt == b.owner->spec.cache_salt &&
      std::equal(a.owner->tokens.begin(), a.owner->tokens.begin() + static_cast<ptrdiff_t>(end),
                 b.owner->tokens.begin());
  return same ? ""
              : absl::StrCat("a block has two owners: sequences ", a.owner->id.value(), " and ",
                             b.owner->id.value());
}

}  // namespace

WorkerOptions RandomWorker(Dice* dice) {
  WorkerOptions options;
  options.num_blocks = dice->Int(6, 40);
  options.prefix_caching = dice->Chance(70);
  SchedulerOptions& scheduler = options.scheduler;
  constexpr int32_t kBlockSizes[] = {1, 2, 4, 8};
  scheduler.block_size = kBlockSizes[dice->Int(0, 3)];
  scheduler.max_num_seqs = dice->Int(1, 8);
  scheduler.max_prefill_tokens = dice->Chance(50) ? dice->Int(1, 8) : dice->Int(8, 200);
  scheduler.max_num_batched_tokens = dice->Chance(50) ? dice->Int(1, 8) : dice->Int(8, 200);
  if (dice->Chance(30)) scheduler.prefill_batch_wait = std::chrono::milliseconds(dice->Int(1, 50));
  scheduler.max_steps_in_flight = dice->Int(1, 2);
  options.lazy_device = dice->Chance(50);
  if (dice->Chance(50)) {
    scheduler.proposals = {.most = dice->Int(1, 6), .batch = dice->Int(2, 20)};
    scheduler.max_draws = scheduler.max_num_seqs + dice->Int(0, 20);
  }
  if (dice->Chance(60)) {
    options.host_blocks = dice->Chance(50) ? dice->Int(1, 4) : dice->Int(5, 40);
    options.swap_costs = {.out_s = static_cast<double>(dice->Int(0, 4)),
                          .in_s = static_cast<double>(dice->Int(0, 4)),
                          .token_s = dice->Chance(50) ? 0.0 : 1.0,
                          .step_s = static_cast<double>(dice->Int(1, 60))};
  }
  scheduler.jump_forward = dice->Chance(70);
  if (scheduler.jump_forward && scheduler.max_draws == 0) {
    scheduler.max_draws = scheduler.max_num_seqs + dice->Int(0, 20);
  }
  scheduler.eos_ids = {2, 3};
  scheduler.limits = {.max_model_len = dice->Int(20, 120),
                      .pool_tokens = options.num_blocks * scheduler.block_size,
                      .vocab_size = kVocab};
  return options;
}

SimWorker::SimWorker(const WorkerOptions& options, const FakeModelOptions& model)
    : options_(options),
      model_(model),
      arena_(options.num_blocks, options.scheduler.block_size),
      host_arena_(options.host_blocks, options.scheduler.block_size),
      kv_(arena_.kv()),
      pool_(options.num_blocks),
      host_pool_(options.host_blocks),
      cache_(options.prefix_caching
                 ? std::make_unique<PrefixCache>(&pool_, options.scheduler.block_size)
                 : nullptr),
      scheduler_(options.scheduler, &pool_, cache_.get(),
                 options.host_blocks > 0 ? &host_pool_ : nullptr),
      runner_(arena_.kv(), DeviceOf(options, model), nullptr, host_arena_.kv()) {
  scheduler_.set_swap_costs(options.swap_costs);
}

SequenceId SimWorker::Add(SequenceSpec spec, base::Instant now) {
  const SequenceId id(++last_id_);
  scheduler_.Add(id, std::move(spec), now);
  scheduler_.Foresee(id, Foretell(last_id_));
  return id;
}

std::string SimWorker::BeginStep(base::Instant now) {
  scheduler_.ExpireAt(now);
  std::optional<SequenceView> first;  // to come, of those that could be preempted
  scheduler_.Visit([&](const LiveSequence& sequence) {
    if (!sequence.preemptible()) return;
    if (!first || CameBefore(sequence.view(), *first)) first = sequence.view();
  });
  const std::optional<SequenceId> oldest =
      first ? std::optional<SequenceId>(first->id) : std::nullopt;
  TakeEvents().swap(events_);
  Propose();
  StepPlan plan = scheduler_.Plan(now);
  scheduler_.Visit([&](const LiveSequence& sequence) { held_back_ += sequence.held_back ? 1 : 0; });
  if (std::string broken = CheckVictims(oldest, plan); !broken.empty()) return broken;
  if (std::string broken = CheckPlan(plan); !broken.empty()) return broken;
  if (std::string broken = CheckProgress(plan, now); !broken.empty()) return broken;
  planned_ = !plan.empty();
  if (planned_) {
    in_flight_.push_back(std::move(plan));
    BATON_CHECK(runner_.Submit(in_flight_.back()).ok()) << "the fake model accepts every plan";
  }
  if (std::string broken = CheckInFlight(); !broken.empty()) return broken;
  return CheckBlocks();
}

std::vector<TokenId> SimWorker::Guess(const LiveSequence& sequence, int32_t count) const {
  std::vector<TokenId> history = sequence.tokens;
  for (int32_t i = 0; i < count; ++i) {
    const kernels::SampleRow row =
        MakeSampleRow(sequence.spec.sampling, sequence.stop, history, sequence.prompt_tokens());
    const uint64_t hash = FakeHistoryHash(arena_.kv().layout, history);
    const TokenId next = FakeDraw(model_, hash, row).token;
    const bool wrong = (hash + steps_) % 5 == 0;
    history.push_back(wrong ? (next + 1) % kVocab : next);
  }
  return {history.end() - count, history.end()};
}

void SimWorker::Propose() {
  std::vector<TokenId> ids;
  scheduler_.Propose([&](const ProposalRequest& asked) {
    ids.clear();
    scheduler_.Visit([&](const LiveSequence& sequence) {
      const bool silent = (steps_ + asked.sequence.value()) % 7 == 0;
      if (sequence.id == asked.sequence && !silent) ids = Guess(sequence, asked.most);
    });
    return std::span<const TokenId>(ids);
  });
}

// Does as the engine does: a new step goes on its way before the one in front of it is waited for.
std::string SimWorker::FinishStep(base::Instant now) {
  const auto most = static_cast<size_t>(options_.scheduler.max_steps_in_flight);
  if (in_flight_.empty() || (planned_ && in_flight_.size() < most)) return "";
  if (std::string broken = CheckInFlight(); !broken.empty()) return broken;
  scheduler_.Visit([&](const LiveSequence& sequence) {
    ended_behind_two_ += sequence.end_after_step && sequence.rows_out == 2 ? 1 : 0;
  });
  auto output = runner_.Wait();
  BATON_CHECK(output.ok()) << output.status().ToString();
  for (SampledToken& token : output->samples) {
    token.end = Foretell(static_cast<uint64_t>(token.token));
  }
  scheduler_.Commit(in_flight_.front(), *output, now);
  in_flight_.pop_front();
  ++steps_;
  if (std::string broken = CheckInFlight(); !broken.empty()) return broken;
  return CheckBlocks();
}

std::optional<EndEstimate> SimWorker::Foretell(uint64_t salt) const {
  EndEstimate end = {.at_step = 1};
  switch (options_.forecast) {
    case Forecast::kNoise: {
      const uint64_t noise = steps_ * 31 + salt * 17;
      if (noise % 5 == 0) return std::nullopt;
      end.expected_remaining = static_cast<float>(noise % 97);
      end.p50 = static_cast<float>(noise % 61);
      end.p90 = static_cast<float>(noise % 301);
      end.p_within[2] = static_cast<float>(noise % 7) / 6;
      return end;
    }
    case Forecast::kSoon:
      end.expected_remaining = end.p50 = end.p90 = 1;
      end.p_within.fill(1);
      return end;
    case Forecast::kLate:
      end.expected_remaining = end.p50 = end.p90 = 1e6F;
      return end;
  }
  return std::nullopt;
}

// No block that a row on the device touches may be handed out.
std::string SimWorker::CheckInFlight() const {
  for (const StepPlan& plan : in_flight_) {
    for (const StepRow& row : plan.rows) {
      for (const BlockId block : row.blocks) {
        if (!pool_.in_use(block)) {
          return absl::StrCat("block ", block.value(), " is free while step ", plan.step,
                              " of sequence ", row.sequence.value(), " touches it");
        }
      }
    }
  }
  return "";
}

std::vector<SchedEvent> SimWorker::TakeEvents() {
  std::vector<SchedEvent> events = std::exchange(events_, {});
  for (SchedEvent& event : scheduler_.TakeEvents()) events.push_back(std::move(event));
  return events;
}

std::string SimWorker::CheckPlan(const StepPlan& plan) const {
  const SchedulerOptions& options = options_.scheduler;
  if (plan.num_tokens > options.max_num_batched_tokens) return "the step's token budget is broken";
  if (plan.shape.prefill_tokens > options.max_prefill_tokens) {
    return "the prefill budget is broken";
  }
  if (plan.rows.size() > static_cast<size_t>(options.max_num_seqs)) return "too many rows";
  int32_t draws = plan.num_samples;
  for (const StepRow& row : plan.rows) {
    if (row.bare_forced) draws -= static_cast<int32_t>(row.forced.size());
  }
  if (draws > std::max(options.max_num_seqs, options.max_draws)) return "too many draws";
  return "";
}

// A transfer writes the blocks of a grant beside the steps, so no copy may touch them any more.
std::string SimWorker::CheckGrant(const BlocksGranted& granted, const StepPlan& plan) const {
  std::vector<const StepPlan*> plans = {&plan};
  for (const StepPlan& out : in_flight_) plans.push_back(&out);
  for (const StepPlan* each : plans) {
    for (const BlockAt& leased : granted.lease) {
      const int32_t block = leased.block.value();
      const auto touches = [&](const auto& copies, auto member) {
        return std::ranges::find(copies, block, member) != copies.end();
      };
      if (touches(each->swaps_out, &kernels::BlockCopy::from) ||
          touches(each->swaps_in, &kernels::BlockCopy::to)) {
        return absl::StrCat("block ", block, " was granted while step ", each->step, " copies it");
      }
    }
  }
  return "";
}

std::string SimWorker::CheckVictims(std::optional<SequenceId> oldest, const StepPlan& plan) {
  std::vector<SchedEvent> events = scheduler_.TakeEvents();
  bool granted = false;
  for (const SchedEvent& event : events) {
    const auto* state = std::get_if<StateEvent>(&event.what);
    if (state != nullptr && state->to == SequenceState::kPreempted && event.sequence == oldest) {
      return absl::StrCat("the oldest sequence ", oldest->value(), " was preempted");
    }
    const auto* grant = std::get_if<BlocksGranted>(&event.what);
    if (grant == nullptr) continue;
    granted = true;
    if (std::string broken = CheckGrant(*grant, plan); !broken.empty()) return broken;
  }
  bool preempted_waits = false;
  scheduler_.Visit([&](const LiveSequence& sequence) {
    preempted_waits |= sequence.state == SequenceState::kPreempted && !sequence.displaced;
  });
  for (SchedEvent& event : events) events_.push_back(std::move(event));
  return granted && preempted_waits ? "a reservation was granted while a preempted one waits" : "";
}

std::string SimWorker::CheckBlocks() const {
  if (!pool_.IsConsistent()) return "the pool's counters are wrong";
  if (pool_.num_free() + pool_.num_cached() + pool_.num_quarantined() + pool_.num_used() !=
      pool_.total()) {
    return "free + cached + quarantined + used is not the total";
  }
  std::string broken;
  std::map<BlockId, std::vector<Use>> uses;
  scheduler_.Visit([&](const LiveSequence& sequence) {
    for (int32_t i = 0; i < sequence.table.size(); ++i) {
      const bool uses_it = !sequence.over() || sequence.table.owns(i);
      if (uses_it) uses[sequence.table[i]].push_back({&sequence, i});
    }
  });
  int32_t used = 0;
  for (const auto& [block, users] : uses) {
    ++used;
    if (pool_.references(block) != static_cast<int32_t>(users.size())) {
      return absl::StrCat("block ", block.value(), " has ", pool_.references(block),
                          " references and ", users.size(), " users");
    }
    for (size_t i = 1; i < users.size() && broken.empty(); ++i) {
      broken = CheckShared(users[0], users[i], options_.scheduler.block_size);
    }
  }
  if (used != pool_.num_used()) return "used blocks without a user";
  return broken.empty() ? CheckHostBlocks() : broken;
}

// Those of preempted sequences, and those that steps on the device may read.
std::string SimWorker::CheckHostBlocks() const {
  if (!host_pool_.IsConsistent()) return "the counters of the host's pool are wrong";
  int32_t kept = 0;
  std::string broken;
  scheduler_.Visit([&](const LiveSequence& sequence) {
    if (!sequence.swapped) return;
    kept += sequence.swapped->blocks.size();
    if (sequence.state != SequenceState::kPreempted) broken = "a sequence that runs is swapped";
    const int32_t all = BlocksFor(sequence.swapped->computed, options_.scheduler.block_size);
    if (sequence.swapped->first + sequence.swapped->blocks.size() != all) {
      broken = "a swapped sequence lacks blocks";
    }
  });
  if (!broken.empty()) return broken;
  const bool reads =
      std::ranges::any_of(in_flight_, [](const StepPlan& plan) { return !plan.swaps_in.empty(); });
  const int32_t used = host_pool_.num_used();
  if (used < kept || (used > kept && !reads)) {
    return absl::StrCat(used, " blocks of the host are used, ", kept, " by preempted sequences");
  }
  return "";
}

// Nothing may stand still unless it waits for somebody outside, or for a batch to fill.
std::string SimWorker::CheckProgress(const StepPlan& plan, base::Instant now) const {
  if (!plan.empty() || !in_flight_.empty()) return "";
  bool waits_for_outside = false;
  int32_t own = 0;
  scheduler_.Visit([&](const LiveSequence& sequence) {
    waits_for_outside |= sequence.leased();
    own += sequence.over() || sequence.state == SequenceState::kReserved ? 0 : 1;
  });
  const bool holds = options_.scheduler.prefill_batch_wait > base::Duration::zero() &&
                     scheduler_.NextWake(now) != base::kNever;
  if (own > 0 && !waits_for_outside && !holds) {
    return absl::StrCat(own, " sequences stand still");
  }
  return "";
}

}  // namespace baton::sim
