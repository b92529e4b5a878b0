#include "common/sched/scheduler.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"

namespace baton {
namespace {

bool IsEarly(FinishReason reason) {
  return reason == FinishReason::kAborted || reason == FinishReason::kDeadline ||
         reason == FinishReason::kError;
}

// Adds a wait to a moment, where waiting for ever leads to kNever.
base::Instant After(base::Instant start, base::Duration wait) {
  return wait >= base::kNever - start ? base::kNever : start + wait;
}

absl::Status DeadlinePassed(SequenceState state) {
  return absl::DeadlineExceededError(absl::StrCat("the request's deadline passed in state ",
                                                  std::string(SequenceStateName(state))));
}

absl::Status LineTooSlow(base::Duration waited) {
  return MakeError(
      absl::StatusCode::kResourceExhausted, {.reason = Reason::kFull},
      absl::StrCat("nothing ended here for ", static_cast<int64_t>(base::Milliseconds(waited)),
                   " ms while the request stood in line; try another worker"));
}

}  // namespace

Scheduler::Scheduler(SchedulerOptions options, BlockPool* pool, PrefixCache* cache, BlockPool* host)
    : options_(std::move(options)), pool_(pool), cache_(cache), host_(host) {
  BATON_CHECK(options_.max_num_seqs >= 1 && options_.max_prefill_tokens >= 1 &&
              options_.max_num_batched_tokens >= 1 && options_.block_size >= 1)
      << "every budget must be at least 1";
  BATON_CHECK(options_.max_steps_in_flight == 1 || options_.max_steps_in_flight == 2)
      << options_.max_steps_in_flight << " steps in flight";
  BATON_CHECK(options_.proposals.most >= 0 && options_.proposals.most <= kMaxProposals)
      << options_.proposals.most << " proposals for a row";
  slots_taken_.resize(static_cast<size_t>(options_.max_num_seqs));
}

void Scheduler::Add(SequenceId id, SequenceSpec spec, base::Instant now) {
  BATON_CHECK(live_.empty() || live_.rbegin()->first < id) << "sequence " << id.value();
  const int32_t max_tokens = ResolveMaxTokens(spec, options_.limits);
  auto sequence = std::make_unique<LiveSequence>(id, std::move(spec), options_.eos_ids,
                                                 options_.token_boundaries, max_tokens,
                                                 options_.block_size, now);
  // The first mask is worked out while it waits and its prompt is computed, unless that is done
  // elsewhere.
  const bool draws_first = sequence->spec.kind != SequenceKind::kReserved;
  if (sequence->spec.follows != nullptr && draws_first) sequence->spec.follows->Prepare();
  waiting_.push_back(sequence.get());
  live_.emplace(id, std::move(sequence));
}

void Scheduler::Cancel(SequenceId id, base::Instant now) {
  LiveSequence* const sequence = Find(id);
  if (sequence == nullptr || sequence->over()) return;
  EndEarlyOrDefer(sequence, FinishReason::kAborted, now);
}

void Scheduler::CommitImport(SequenceId id, SampledToken first, base::Instant now) {
  LiveSequence* const sequence = Find(id);
  if (sequence == nullptr) return;
  if (sequence->over()) return ReturnLease(id);  // revoked or cancelled while the commit came
  if (sequence->state != SequenceState::kReserved || !sequence->leased()) return;
  sequence->lease = Lease::kReturned;
  const int32_t received =
      sequence->length() - sequence->leased_from * options_.block_size;  // never negative
  counters_.prompt_tokens_received += static_cast<uint64_t>(received);
  sequence->computed = sequence->planned = sequence->length();
  EnterProven(sequence);
  if (sequence->beams != nullptr) return ImportBeams(sequence, std::move(first), now);
  sequence->first_token_at = now;
  SetState(sequence, SequenceState::kDecoding, now);
  const auto decision = Append(sequence, &first);
  // The prefill worker drew this token, and told or ended what there was to tell or end.
  if (sequence->guard) sequence->runaway_told = sequence->ran_away();
  sequence->end = sequence->stop.natural_end_step() ? std::nullopt : first.end;
  if (decision.reason != FinishReason::kNone) {
    End(sequence, decision.reason, decision.stop_token, now);
  }
}

void Scheduler::Foresee(SequenceId id, const std::optional<EndEstimate>& end) {
  LiveSequence* const sequence = Find(id);
  if (sequence == nullptr) return;
  sequence->end = end;
  if (end) sequence->class_tokens = sequence->generated() + end->expected_remaining;
}

void Scheduler::ReturnLease(SequenceId id) {
  LiveSequence* const sequence = Find(id);
  if (sequence == nullptr) return;
  sequence->lease = Lease::kReturned;
  ForgetIfUnused(sequence);
}

void Scheduler::ExpireAt(base::Instant now) {
  std::vector<LiveSequence*> due;
  for (const auto& [id, sequence] : live_) {
    if (!sequence->over()) due.push_back(sequence.get());
  }
  for (LiveSequence* const sequence : due) {
    const bool in_line =
        sequence->state == SequenceState::kQueued && sequence->spec.kind == SequenceKind::kReserved;
    const bool late = sequence->spec.deadline <= now;
    if (late && sequence->state == SequenceState::kReserved) ++counters_.reservations_expired;
    if (late && in_line) {
      Refuse(sequence, DeadlinePassed(sequence->state), now);
    } else if (late) {
      EndEarlyOrDefer(sequence, FinishReason::kDeadline, now);
    } else if (RefusedAt(*sequence) <= now) {
      Refuse(sequence, LineTooSlow(now - std::max(sequence->admitted, last_end_)), now);
    }
  }
}

// A line moves when something ends, so nobody is sent away while that goes on. Prompts of others
// wait for as long as it takes, unless reservations have places and no prompt is computed: then
// whoever these wait for may wait for the prompts.
base::Instant Scheduler::RefusedAt(const LiveSequence& sequence) const {
  if (sequence.state != SequenceState::kQueued) return base::kNever;
  const bool reserves = sequence.spec.kind == SequenceKind::kReserved;
  const bool blocked = sequence.spec.kind == SequenceKind::kPrefill && !reserved_.empty();
  if (!reserves && !blocked) return base::kNever;
  base::Instant moved = std::max(sequence.admitted, last_end_);
  if (blocked) moved = std::max(moved, last_prompt_);
  return After(moved, sequence.spec.reserve_timeout);
}

base::Instant Scheduler::NextWake(base::Instant now) const {
  base::Instant wake = HoldUntil();
  if (wake <= now) wake = base::kNever;
  for (const auto& [id, sequence] : live_) {
    if (sequence->over()) continue;
    wake = std::min(wake, sequence->spec.deadline);
    wake = std::min(wake, RefusedAt(*sequence));
  }
  return wake;
}

std::vector<SchedEvent> Scheduler::TakeEvents() { return std::exchange(events_, {}); }

std::vector<SequenceId> Scheduler::TakeForgotten() { return std::exchange(forgotten_, {}); }

std::vector<SequenceId> Scheduler::LiveIds() const {
  std::vector<SequenceId> ids;
  for (const auto& [id, sequence] : live_) ids.push_back(id);
  return ids;
}

void Scheduler::Visit(const std::function<void(const LiveSequence&)>& visitor) const {
  for (const auto& [id, sequence] : live_) visitor(*sequence);
}

SchedulerFigures Scheduler::figures() const {
  SchedulerFigures figures = counters_;
  figures.running = static_cast<int32_t>(running_.size());
  figures.waiting = static_cast<int32_t>(waiting_.size());
  figures.reserved = static_cast<int32_t>(reserved_.size());
  figures.places = Places();
  figures.short_of_blocks = short_of_blocks_;
  figures.seats = SeatsTaken();
  for (const LiveSequence* sequence : waiting_) figures.seats += sequence->seats();
  for (const LiveSequence* sequence : waiting_) {
    if (sequence->spec.kind != SequenceKind::kReserved) {
      figures.queued_prompt_tokens += sequence->to_compute();
    }
  }
  for (const LiveSequence* sequence : running_) {
    if (!sequence->decodes()) figures.queued_prompt_tokens += sequence->pending();
    const auto end = sequence->expected_end();
    if (!end) continue;
    const double left = std::min<double>(end->expected_remaining, sequence->tokens_left());
    ++figures.foreseen;
    figures.expected_tokens += left;
    figures.expected_kv_tokens += left * sequence->length();
    const bool cut = sequence->tokens_left() <= kEndHorizons[2];
    figures.expected_ends += cut ? 1 : end->p_within[2];
  }
  return figures;
}

// Once somebody waits for blocks, nothing is let in past it, so that short requests do not starve
// long ones.
int32_t Scheduler::Places() const {
  const auto here = static_cast<int32_t>(running_.size() + reserved_.size() + waiting_.size());
  const int32_t line = options_.policy.line();
  int32_t beams = 0;  // beside the first of each search
  for (const auto& [id, sequence] : live_) {
    if (!sequence->over()) beams += sequence->seats() - 1;
  }
  if (short_of_blocks_) {
    const auto placed = static_cast<int32_t>(running_.size() + reserved_.size());
    return std::max(here, placed + line);
  }
  const int32_t spare_blocks = std::max(0, pool_->available() - GrowingSequences());
  return std::max(0, std::min(options_.max_num_seqs - beams, here + spare_blocks)) + line;
}

int32_t Scheduler::num_queued() const {
  return static_cast<int32_t>(std::ranges::count_if(
      waiting_, [](const auto* s) { return s->state == SequenceState::kQueued; }));
}

LiveSequence* Scheduler::Find(SequenceId id) {
  const auto found = live_.find(id);
  return found == live_.end() ? nullptr : found->second.get();
}

std::vector<LiveSequence*>* Scheduler::ListOf(SequenceState state) {
  switch (state) {
    case SequenceState::kQueued:
    case SequenceState::kPreempted:
      return &waiting_;
    case SequenceState::kReserved:
      return &reserved_;
    case SequenceState::kPrefilling:
    case SequenceState::kDecoding:
      return &running_;
    case SequenceState::kDone:
    case SequenceState::kFailed:
      return nullptr;
  }
  return nullptr;
}

void Scheduler::SetState(LiveSequence* sequence, SequenceState to, base::Instant now) {
  const SequenceState from = sequence->state;
  auto* const old_list = ListOf(from);
  auto* const new_list = ListOf(to);
  if (old_list != new_list) {
    if (old_list != nullptr) std::erase(*old_list, sequence);
    if (new_list != nullptr) new_list->push_back(sequence);
  }
  if (from == SequenceState::kQueued) sequence->queue_time = now - sequence->admitted;
  if ((old_list == &running_) != (new_list == &running_)) {
    MoveSlot(sequence, new_list == &running_);
  }
  sequence->state = to;
  sequence->state_since = now;
  Emit(*sequence, now, StateEvent{from, to});
}

// A slot may pass on while a row of its last owner is out: steps run in the order of their plans.
void Scheduler::MoveSlot(LiveSequence* sequence, bool runs) {
  if (!runs) {
    slots_taken_[static_cast<size_t>(std::exchange(sequence->slot, -1))] = false;
    return;
  }
  const auto free = std::find(slots_taken_.begin(), slots_taken_.end(), false);
  BATON_CHECK(free != slots_taken_.end()) << running_.size() << " sequences run";
  *free = true;
  sequence->slot = static_cast<int32_t>(free - slots_taken_.begin());
}

void Scheduler::EndEarlyOrDefer(LiveSequence* sequence, FinishReason reason, base::Instant now) {
  if (sequence->rows_out > 0) {
    if (!sequence->end_after_step) sequence->end_after_step = reason;
    return;
  }
  End(sequence, reason, std::nullopt, now);
}

void Scheduler::End(LiveSequence* sequence, FinishReason reason, std::optional<TokenId> stop_token,
                    base::Instant now, absl::Status why) {
  last_end_ = now;
  ++counters_.ended;
  FinishedEvent finished = Summary(*sequence, now);
  finished.reason = reason;
  finished.stop_token = stop_token;
  finished.status = std::move(why);
  if (reason == FinishReason::kDeadline) finished.status = DeadlinePassed(sequence->state);
  SetState(sequence, IsEarly(reason) ? SequenceState::kFailed : SequenceState::kDone, now);
  Emit(*sequence, now, std::move(finished));
  FreeBlocks(sequence, now);
}

void Scheduler::Refuse(LiveSequence* sequence, absl::Status status, base::Instant now) {
  SetState(sequence, SequenceState::kFailed, now);
  Emit(*sequence, now, RefusedEvent{std::move(status)});
  FreeBlocks(sequence, now);
}

void Scheduler::Revoke(LiveSequence* sequence, base::Instant now) {
  ++counters_.revocations;
  SetState(sequence, SequenceState::kFailed, now);
  Emit(*sequence, now, RevokedEvent{});
  FreeBlocks(sequence, now);
}

void Scheduler::FreeBlocks(LiveSequence* sequence, base::Instant now) {
  const bool early = sequence->state == SequenceState::kFailed;
  if (early && sequence->leased()) {
    const bool reads = sequence->spec.kind == SequenceKind::kPrefill;
    const bool only_reported = reads && sequence->rows_out == 0;
    sequence->table.Quarantine(reads ? 0 : sequence->leased_from,
                               only_reported ? sequence->blocks_reported : sequence->table.size());
    Emit(*sequence, now, DetachEvent{});
  }
  ForgetSwapped(sequence);
  ForgetIfUnused(sequence);
}

// Forgets the sequence once it is over and neither a lease nor a row that is out needs its blocks.
void Scheduler::ForgetIfUnused(LiveSequence* sequence) {
  if (!sequence->over() || sequence->leased() || sequence->rows_out > 0) return;
  sequence->table.Clear();
  const SequenceId id = sequence->id;
  live_.erase(id);
  forgotten_.push_back(id);
}

FinishedEvent Scheduler::Summary(const LiveSequence& sequence, base::Instant now) const {
  FinishedEvent finished;
  finished.natural_end_step = sequence.stop.natural_end_step();
  finished.prompt_tokens = sequence.prompt_tokens();
  finished.cached_tokens = sequence.cached_prompt_tokens();
  finished.generated_tokens = sequence.generated();
  finished.max_tokens = sequence.stop.max_tokens();
  finished.preemptions = sequence.preemptions;
  finished.passed_special = sequence.passed_special;
  const bool queued = sequence.state == SequenceState::kQueued;
  finished.queue_time = queued ? now - sequence.admitted : sequence.queue_time;
  finished.prefill_time = sequence.prefill_time;
  if (sequence.first_token_at != base::Instant()) {
    finished.decode_time = now - sequence.first_token_at;
  }
  if (sequence.beams != nullptr && sequence.beams->done()) sequence.beams->Tell(&finished);
  return finished;
}

}  // namespace baton
